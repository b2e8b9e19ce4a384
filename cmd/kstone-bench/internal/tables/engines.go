// Package tables measures tables, secondary indexes and queries: the table layer of kstone
// beside SQLite and two Go libraries that keep structs with indexes, bstore and badgerhold.
//
// All of them keep the same rows and answer the same questions, in one process, in turns: a
// round gives each engine a turn of the same length for a case, and the next round begins
// with another engine. Before anything is measured, every engine has to answer random
// questions as the data says, so all return equal rows.
//
// Three things are measured of kstone alone: what a prepared query takes beside a read of
// the store and the decoding of the row, how long spans of predicates take, and how
// ascending values are spread by sharded indexes.
package tables

import (
	"context"
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
)

// store is the table in one engine.
type store interface {
	// insert writes rows as one transaction. It is used by one goroutine.
	insert(ctx context.Context, rows []Row) error
	// settle finishes what the engine does in the background after loading, and has it
	// collect statistics if it knows any.
	settle(ctx context.Context) error
	// session returns what one goroutine reads with, until the store is closed.
	session(ctx context.Context) (session, error)
	close() error
}

// session answers questions. Rows are the caller's: no memory of the engine is in them.
type session interface {
	// get reads by the primary key, in the fastest way the engine has: prepared.
	get(ctx context.Context, id int64, r *Row) error
	// getOnce is get as a query that is not prepared.
	getOnce(ctx context.Context, id int64, r *Row) error
	// getCode reads by the unique index, prepared.
	getCode(ctx context.Context, code string, r *Row) error
	// rangeAt appends the rows with lo <= At < hi in the order of At.
	rangeAt(ctx context.Context, dst []Row, lo, hi int64) ([]Row, error)
	// rangeCovered is rangeAt of the two columns that the index can hold.
	rangeCovered(ctx context.Context, dst []pair, lo, hi int64) ([]pair, error)
	// firstBySeq appends the first rows with from <= Seq in the order of Seq.
	firstBySeq(ctx context.Context, dst []Row, from int64, limit int) ([]Row, error)
}

// settings of a store.
type settings struct {
	dir     string
	indexes int  // 0; 1: At; 3: At, Code (unique) and Seq
	sync    bool // commits survive a power cut, not only the end of the process
}

// engine is a contestant.
type engine struct {
	name   string
	module string
	tuning string // what was chosen, for the page
	open   func(ctx context.Context, s settings) (store, error)
}

// engines in the order of reports, the subject first; sqlite_cgo.go adds one.
var engines = []engine{
	{subject, "github.com/kstonedb/kstone", kstoneTuning, openKstone},
	{"sqlite", "modernc.org/sqlite", sqliteTuning, opener("sqlite")},
	{"bstore", "github.com/mjl-/bstore", bstoreTuning, openBstore},
	{"badgerhold", "github.com/timshannon/badgerhold/v4", holdTuning, openHold},
}

const subject = result.Subject

// Engines returns the names of the engines of this binary.
func Engines() []string {
	var names []string
	for _, e := range engines {
		names = append(names, e.name)
	}
	return names
}

// find returns engines by their names, the subject first.
func find(names []string) ([]engine, error) {
	var out []engine
	for _, e := range engines {
		if e.name == subject || slices.Contains(names, e.name) {
			out = append(out, e)
		}
	}
	for _, name := range names {
		if !slices.Contains(Engines(), name) {
			return nil, fmt.Errorf("no engine %q; there are %q", name, Engines())
		}
	}
	return out, nil
}

// Budgets that all engines get.
const (
	cacheBytes  = 256 << 20
	bufferBytes = 64 << 20
)
