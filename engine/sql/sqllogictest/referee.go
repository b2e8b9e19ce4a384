//go:build cgo && unix

package main

import (
	"database/sql"
	"fmt"
	"syscall"
	"time"

	_ "github.com/mattn/go-sqlite3" // the driver "sqlite3", in C

	"github.com/kstonedb/kstone/engine/expr"
)

// referee is SQLite in memory: it runs the records of a file as they stand.
type referee struct{ db *sql.DB }

func newReferee() (*referee, error) {
	db, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // each connection has tables of its own
	return &referee{db}, nil
}

func (r *referee) close() { r.db.Close() }

func (r *referee) exec(text string) {
	r.db.Exec(text) // what it refuses, its queries show
}

// values runs a query and returns its values, row by row.
func (r *referee) values(text, types string) (out []string, err error) {
	rows, err := r.db.Query(text)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	row, at := make([]any, len(types)), make([]any, len(types))
	for i := range row {
		at[i] = &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(at...); err != nil {
			return nil, err
		}
		for i, v := range row {
			value, err := expr.From(v)
			if err != nil {
				return nil, fmt.Errorf("column %d: %w", i, err)
			}
			out = append(out, cell(value, types[i]))
		}
	}
	return out, rows.Err()
}

// processorTime returns what the process has used so far.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
