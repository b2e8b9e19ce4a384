package table

import (
	"context"
	"errors"
	"io"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/store"
)

// Snapshot reads all tables as they were at one moment, their definitions included. It may
// be used by many goroutines.
type Snapshot struct {
	db     *DB
	snap   store.Snapshot
	list   *tableList
	states map[*tableCore]*tableState
}

// Snapshot takes a snapshot of the present. The caller must Close it.
func (db *DB) Snapshot(ctx context.Context) (*Snapshot, error) {
	for {
		s := &Snapshot{db: db, list: db.tables.Load(), states: map[*tableCore]*tableState{}}
		for _, core := range s.list.byID {
			s.states[core] = core.state.Load()
		}
		var err error
		if s.snap, err = db.store.Snapshot(ctx); err != nil {
			return nil, err
		}
		same, err := db.sees(ctx, s.snap)
		if err != nil {
			return nil, errors.Join(err, s.snap.Close())
		}
		same = same && db.tables.Load() == s.list
		for core, st := range s.states {
			same = same && core.state.Load() == st
		}
		if same {
			return s, nil
		}
		if err := s.snap.Close(); err != nil {
			return nil, err
		}
	}
}

// Close ends the snapshot. It may be called again.
func (s *Snapshot) Close() error { return s.snap.Close() }

// DB returns the database.
func (s *Snapshot) DB() *DB { return s.db }

// Table returns the table that had that name. Its methods read the snapshot and write
// nothing.
func (s *Snapshot) Table(name string) (*Table, error) {
	core := s.list.byName[name]
	if core == nil {
		return nil, &NameError{name, ErrNoTable}
	}
	return &Table{db: s.db, core: core, snap: s}, nil
}

// Query is DB.Query of the snapshot.
func (s *Snapshot) Query(ctx context.Context, sel *plan.Select, params ...any) (*Rows, error) {
	return query(ctx, s, sel, params)
}

func (s *Snapshot) stateOf(ctx context.Context, core *tableCore) (*tableState, error) {
	st := s.states[core]
	if st == nil || st.gone {
		return nil, &NameError{core.state.Load().Schema.Name, ErrNoTable}
	}
	return st, nil
}

func (s *Snapshot) open(context.Context, *Rows) (store.Reader, io.Closer, error) {
	return s.snap, nil, nil
}
