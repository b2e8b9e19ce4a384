package sql

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
)

// Session runs statements over the tables of a database, and holds the transaction that
// BEGIN has begun, until COMMIT or ROLLBACK. It may be used concurrently, except that a
// transaction, as long as it is open, belongs to one goroutine.
//
// The database's cache of plans keeps statements with texts of up to 4 KiB, by session and text,
// until others displace them, also when the session is not used any more:
// table.Options.PlanCache bounds how many it keeps in all.
type Session struct {
	db   *table.DB
	id   uint64                      // of the session, in the keys of its statements
	open atomic.Pointer[transaction] // nil: every statement is one of its own
	// Progress, if not nil, is called while CREATE INDEX, DROP and ANALYZE run. It is set
	// before the session is used.
	Progress func(table.Progress)
}

// maxCachedText bounds the texts that are kept: longer ones, rows to be inserted mostly, are not
// likely to come again.
const maxCachedText = 4 << 10

// sessions counts the sessions. Why a number in the keys: a statement reports to Progress of its
// session.
var sessions atomic.Uint64

// Open returns a session. The database stays the caller's.
func Open(db *table.DB) *Session { return &Session{db: db, id: sessions.Add(1)} }

// tables implements catalog.
type tables struct{ db *table.DB }

// Schema returns the table with that name, or nil.
func (t tables) Schema(name string) *schema.Table {
	found, err := t.db.Table(name)
	if err != nil {
		return nil
	}
	return found.Schema()
}

// Names returns the names of all tables.
func (t tables) Names() (names []string) {
	for _, found := range t.db.Tables() {
		names = append(names, found.Name())
	}
	return names
}

// View returns the view with that name, or nil.
func (t tables) View(name string) *table.View {
	found, err := t.db.View(name)
	if err != nil {
		return nil
	}
	return found
}

// Views returns the names of all views.
func (t tables) Views() (names []string) {
	for _, v := range t.db.Views() {
		names = append(names, v.Name)
	}
	return names
}

// ErrNoResult is returned by Query for a statement that has no rows as its result, and by
// Exec for one that has.
var ErrNoResult = errors.New("sql: Exec is for statements that change something, " +
	"Query for those that return rows")

// ErrArguments is matched by errors about values that are given for parameters.
var ErrArguments = errors.New("sql: parameters")

// Result is what a statement has done.
type Result struct {
	// Statement is what it was: "INSERT", "CREATE TABLE" …
	Statement string
	// Rows is how many rows were written, changed or deleted.
	Rows int64
	// Removed is how many rows INSERT OR REPLACE has deleted because they had unique values
	// of others that it has written.
	Removed int64
	// Skipped is how many rows INSERT OR IGNORE has left out.
	Skipped int64
	// Unchanged says that nothing was to be done: IF EXISTS, IF NOT EXISTS.
	Unchanged bool
	// LastID is the number of the last row that INSERT has written, whether it was made or given,
	// in the identity column of the table, if HasLastID.
	LastID    int64
	HasLastID bool

	returned *returned // of RETURNING, or nil
}

// Exec runs one statement that returns no rows. Args are the values of its parameters, in
// their order, or made by Named. Errors in the text are *Error; what the tables refuse is
// inside it or returned as it is: test with errors.Is and errors.As for those of package
// table.
func (s *Session) Exec(ctx context.Context, text string, args ...any) (Result, error) {
	stmt, err := s.Prepare(text)
	if err != nil {
		return Result{}, err
	}
	return stmt.Exec(ctx, args...)
}

// Query runs a SELECT, EXPLAIN or SHOW, or what has a RETURNING. See Exec for args and errors.
// Nothing is read before the rows are iterated over, but for EXPLAIN ANALYZE; a statement with
// RETURNING is done when Query returns.
func (s *Session) Query(ctx context.Context, text string, args ...any) (*Rows, error) {
	stmt, err := s.Prepare(text)
	if err != nil {
		return nil, err
	}
	return stmt.Query(ctx, args...)
}

// Prepare parses one statement, and binds it to the tables if it is a query. It may be run
// many times and concurrently; it follows changes of its tables. A text without parameters is
// kept from the second time on.
func (s *Session) Prepare(text string) (*Stmt, error) {
	var key []byte
	if len(text) <= maxCachedText {
		var room [512]byte
		key = binary.AppendUvarint(append(room[:0], plan.KeyOfText), s.id)
		key = append(key, text...)
		if stmt, ok := s.db.Plans().Get(key).(*Stmt); ok {
			return stmt, stmt.check()
		}
	}
	memory := trees.Get().(*syntax.Memory)
	tree, err := syntax.ParseIn(memory, text)
	if err != nil {
		return nil, err
	}
	stmt := &Stmt{session: s, text: text, tree: tree, past: asOf(tree)}
	if err := stmt.check(); err != nil {
		return nil, err
	}
	switch _, query := tree.(*syntax.Select); {
	case !query: // it has memory of its own
		trees.Put(memory)
	case stmt.past == nil:
		stmt.tree = dropped
		memory.Reset()
		trees.Put(memory)
	}
	switch last := stmt.last.Load(); {
	case key == nil:
	case last != nil && !last.asked.params.any():
		s.db.Plans().KeepAgain(key, stmt)
	default:
		s.db.Plans().Keep(key, stmt)
	}
	return stmt, nil
}

// trees are memory for the trees of queries.
var trees = sync.Pool{New: func() any { return new(syntax.Memory) }}

// dropped stands for the tree of a query, which is read again should the query be bound again. Why:
// what is bound refers to nothing of the tree, and most texts come once.
var dropped = new(syntax.Select)

// check fails for a statement that does not fit the present tables, unless it reads others.
func (s *Stmt) check() error {
	if s.past != nil {
		return nil
	}
	_, err := s.bound()
	return err
}

// PrepareParts is Prepare for each of several statements with semicolons between them. A
// statement is bound when it is run, so that it may use tables that those before it make.
func (s *Session) PrepareParts(text string) ([]*Stmt, error) {
	parts, err := syntax.ParseAll(text)
	if err != nil {
		return nil, err
	}
	var out []*Stmt
	for _, p := range parts {
		out = append(out, &Stmt{session: s, text: text, tree: p.Statement,
			start: p.Pos, end: p.End, past: asOf(p.Statement), values: p.Values})
	}
	return out, nil
}
