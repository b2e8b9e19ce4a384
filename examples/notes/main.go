// Notes is a small HTTP service over database/sql: notes of users, and a counter of each user's
// notes that is always right.
//
//	go run ./examples/notes notes.db
//	curl -d 'user=ada&text=hello' localhost:8080/notes
//	curl 'localhost:8080/notes?user=ada&limit=10'
//	curl -X DELETE 'localhost:8080/notes?user=ada&id=1'
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"time"

	_ "github.com/kstonedb/kstone/engine/sql/driver"
	"github.com/kstonedb/kstone/engine/table"
)

// tables are created one by one: definitions are no part of transactions.
const tables = `
CREATE TABLE IF NOT EXISTS users (name TEXT PRIMARY KEY, notes INT, last INT);
CREATE TABLE IF NOT EXISTS notes (
  user TEXT, id INT, text TEXT, at TIMESTAMP(ms),
  PARTITION KEY (user), SORT KEY (id DESC)
)`

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: notes DB")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// serve runs until ctx ends.
func serve(ctx context.Context, name string) (err error) {
	db, err := sql.Open("kstone", name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	handler, err := newHandler(ctx, db)
	if err != nil {
		return err
	}
	s := &http.Server{Addr: "localhost:8080", Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() {
		<-ctx.Done()
		s.Close()
	}()
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// notes is the service.
type notes struct{ db *sql.DB }

// newHandler creates the tables that are missing.
func newHandler(ctx context.Context, db *sql.DB) (http.Handler, error) {
	if _, err := db.ExecContext(ctx, tables); err != nil {
		return nil, err
	}
	n := notes{db}
	mux := http.NewServeMux()
	for pattern, serve := range map[string]func(*http.Request) (any, error){
		"POST /notes": n.add, "GET /notes": n.list, "DELETE /notes": n.remove,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			answer, err := serve(r)
			if err != nil {
				status := http.StatusInternalServerError
				if errors.Is(err, sql.ErrNoRows) {
					status = http.StatusNotFound
				}
				http.Error(w, err.Error(), status)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(answer)
		})
	}
	return mux, nil
}

// update runs fn in a transaction, again if it conflicts with another one.
func (n notes) update(ctx context.Context, fn func(*sql.Tx) error) error {
	for {
		tx, err := n.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err = fn(tx); err == nil {
			err = tx.Commit()
		}
		_ = tx.Rollback() // does nothing after Commit
		if !errors.Is(err, table.ErrConflict) {
			return err
		}
	}
}

// add writes a note under the next number of its user.
func (n notes) add(r *http.Request) (any, error) {
	ctx, user := r.Context(), r.FormValue("user")
	var id int64
	err := n.update(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO users VALUES (?, 1, 1) ON CONFLICT (name) "+
			"DO UPDATE SET notes = notes + 1, last = last + 1", user)
		if err != nil {
			return err
		}
		err = tx.QueryRowContext(ctx, "SELECT last FROM users WHERE name = ?", user).Scan(&id)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO notes VALUES (?, ?, ?, now())", user, id,
			r.FormValue("text"))
		return err
	})
	return map[string]int64{"id": id}, err
}

// note is one of the answer of list.
type note struct {
	ID   int64     `json:"id"`
	Text string    `json:"text"`
	At   time.Time `json:"at"`
}

// list returns the newest notes of a user, those before a number if it is given.
func (n notes) list(r *http.Request) (any, error) {
	limit, err := strconv.Atoi(r.FormValue("limit"))
	if err != nil {
		limit = 20
	}
	before, err := strconv.ParseInt(r.FormValue("before"), 10, 64)
	if err != nil {
		before = 1 << 62
	}
	rows, err := n.db.QueryContext(r.Context(), "SELECT id, text, at FROM notes "+
		"WHERE user = ? AND id < ? ORDER BY id DESC LIMIT ?", r.FormValue("user"), before, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []note{}
	for rows.Next() {
		var one note
		if err := rows.Scan(&one.ID, &one.Text, &one.At); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// remove deletes a note, and returns how many the user has left.
func (n notes) remove(r *http.Request) (any, error) {
	ctx, user := r.Context(), r.FormValue("user")
	var left int64
	err := n.update(ctx, func(tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, "DELETE FROM notes WHERE user = ? AND id = "+
			"CAST(? AS INT)", user, r.FormValue("id"))
		if err != nil {
			return err
		}
		if gone, err := done.RowsAffected(); err != nil || gone == 0 {
			return errors.Join(err, fmt.Errorf("note %s of %s: %w", r.FormValue("id"), user,
				sql.ErrNoRows))
		}
		_, err = tx.ExecContext(ctx, "UPDATE users SET notes = notes - 1 WHERE name = ?", user)
		if err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, "SELECT notes FROM users WHERE name = ?", user).Scan(&left)
	})
	return map[string]int64{"left": left}, err
}
