package table_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
	"github.com/kstonedb/kstone/keycodec"
)

// modelStore is an engine that lets other work come between the steps of a change of a definition,
// and takes small commits.
type modelStore struct {
	*local.Store
	ops  int             // Limits.CommitOps
	most int             // operations that a commit may have; 0: any
	less func(n int) int // a random number below n
}

// besideKey is of a context with a func(free bool) that is called before each step; free says that
// no table is locked.
type besideKey struct{}

func beside(ctx context.Context, free bool) {
	if f, ok := ctx.Value(besideKey{}).(func(bool)); ok {
		f(free)
	}
}

func (s *modelStore) Limits() store.Limits {
	l := s.Store.Limits()
	l.CommitOps = s.ops
	return l
}

func (s *modelStore) Commit(ctx context.Context, w *store.WriteSet) error {
	if s.most > 0 && len(w.Ops) > s.most {
		return store.ErrTooLarge
	}
	if len(w.Ops) > 0 && !table.InCatalogue(w.Ops[0].Key.PK) {
		beside(ctx, false)
	}
	return s.Store.Commit(ctx, w)
}

func (s *modelStore) Snapshot(ctx context.Context) (store.Snapshot, error) {
	beside(ctx, true)
	return s.Store.Snapshot(ctx)
}

func (s *modelStore) DeletePartitions(ctx context.Context, pks [][]byte) error {
	beside(ctx, true)
	return s.Store.DeletePartitions(ctx, pks)
}

// smaller runs a statement, which may be several commits if they are small.
func (s *modelStore) smaller(may bool, f func()) {
	if s != nil && may {
		s.most = 60 * s.less(2)
		defer func() { s.most = 0 }()
	}
	f()
}

// defining runs a change of a definition that takes a while. Other steps come between its own, and
// it may be interrupted.
func (r *modelRun) defining(f func(context.Context) error) error {
	left := r.rng.IntN(30)
	own, cancel := context.WithCancel(ctx)
	defer cancel()
	err := f(context.WithValue(own, besideKey{}, func(free bool) {
		r.learn()
		for range r.rng.IntN(5) {
			r.step()
		}
		if free && !r.calm && r.rng.IntN(4) == 0 {
			r.alter("y")
		}
		if left--; left == 0 {
			cancel()
		}
	}))
	r.learn()
	return err
}

// learn takes over the definition.
func (r *modelRun) learn() {
	r.Helper()
	r.m.learn(r.tab.Schema())
	r.clash = r.clash || !r.m.valid(r.m.with(nil), true)
	if !r.m.valid(r.m.with(nil), false) {
		r.Fatal("an index was built over rows in conflict")
	}
}

// change changes the definition of the table.
func (r *modelRun) change(phase int) {
	name, s := fmt.Sprint("x", phase), r.tab.Schema()
	var err error
	switch n := r.rng.IntN(12); {
	case n < 5:
		def := randomIndex(r.rng, s, name)
		err = r.defining(func(ctx context.Context) error {
			return r.tab.CreateIndex(ctx, def, nil)
		})
	case n == 5 && len(s.Indexes) > 0:
		x := s.Indexes[r.rng.IntN(len(s.Indexes))].Name
		err = r.defining(func(ctx context.Context) error {
			return r.db.DropIndex(ctx, s.Name, x, nil)
		})
	case n == 6:
		c := schema.Check{Name: name, Condition: expr.Cmp{Op: expr.Lt, L: col(r.tab, "a"),
			R: expr.Const{Value: expr.Int(8 + r.rng.Int64N(5))}}}
		err = r.defining(func(ctx context.Context) error {
			return r.tab.AddCheck(ctx, c, nil)
		})
		if broken := r.m.breaks(c); err == nil && broken || errors.Is(err, table.ErrCheck) &&
			!broken {
			r.Fatalf("%v, rows do not satisfy the check: %v", err, broken)
		}
	case n == 7:
		r.migrate()
	case n == 8 && r.rng.IntN(2) == 0:
		r.must(r.db.DropTable(ctx, s.Name, nil))
		r.create()
	case n == 9 && r.fs != nil:
		r.reopen()
	default:
		r.alter(name)
	}
	r.settled(err)
	if r.rng.IntN(2) == 0 {
		r.resume()
	}
}

// settled judges the outcome of what has built indexes and looked at rows.
func (r *modelRun) settled(err error) {
	r.Helper()
	conflict := errors.Is(err, table.ErrUnique)
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, table.ErrCheck) &&
		!conflict || conflict && !r.clash {
		r.Fatalf("%v, rows were in conflict: %v", err, r.clash)
	}
	r.clash = r.clash && slices.ContainsFunc(r.m.t.Indexes, func(x *schema.Index) bool {
		return x.State == schema.Building
	})
}

// resume finishes what was interrupted.
func (r *modelRun) resume() {
	r.settled(r.defining(func(ctx context.Context) error { return r.db.Resume(ctx, nil) }))
	err := r.db.Resume(ctx, nil)
	r.learn()
	r.settled(err)
	if r.db.Unfinished() {
		r.Fatal("something is unfinished")
	}
}

// breaks reports whether a row does not satisfy a check.
func (m *model) breaks(c schema.Check) bool {
	for _, row := range m.rows {
		truth, err := expr.Test(c.Condition, func(_, o int) expr.Value { return row.row[o] }, nil)
		if err != nil || truth == expr.False {
			return true
		}
	}
	return false
}

// alter changes the definition in one commit. What something needs is not changed.
func (r *modelRun) alter(name string) {
	s := r.tab.Schema()
	o := []int{4, 5, len(s.Columns) - 1, len(s.Columns) - 1}[r.rng.IntN(4)]
	column, own := s.Columns[o].Name, o > 8 && s.Columns[o].Type == keycodec.TypeInt64
	v, may := expr.Int(r.rng.Int64N(5)), false
	var err error
	switch r.rng.IntN(9) {
	case 0, 1:
		c := schema.Column{Name: fmt.Sprint(name, s.Version), Type: keycodec.TypeInt64,
			Nullable: r.rng.IntN(2) == 0}
		if !c.Nullable || r.rng.IntN(2) == 0 {
			c.Default = &v
		}
		err = r.db.AddColumn(ctx, s.Name, c)
	case 2:
		if own && !s.Columns[o].Dropped {
			err = r.db.SetDefault(ctx, s.Name, column, &v)
		}
	case 3:
		if o != 8 {
			err, may = r.db.DropColumn(ctx, s.Name, column), true
		}
	case 4:
		to := map[string]string{"b": "bb", "bb": "b", "f": "ff", "ff": "f"}[column]
		err, may = r.db.RenameColumn(ctx, s.Name, column, to), true
	case 5:
		err = r.db.SetTTL(ctx, s.Name, &schema.TTL{Ordinal: 8,
			After: time.Duration(1000+r.rng.IntN(3000)) * time.Second})
	case 6:
		err = r.db.SetTTL(ctx, s.Name, nil)
	case 7:
		err = r.db.RenameTable(ctx, s.Name, map[string]string{"t": "u", "u": "t"}[s.Name])
	case 8:
		if len(s.Checks) > 0 && !s.Checks[0].Unverified {
			err = r.tab.DropCheck(ctx, s.Checks[0].Name)
		} else if len(s.Indexes) > 0 {
			err = r.db.RenameIndex(ctx, s.Name, s.Indexes[0].Name, fmt.Sprint(name, "i", s.Version))
		}
	}
	if err != nil && (!may || r.tab.Schema() != s) {
		r.Fatal(err)
	}
	r.learn()
}

// migrate makes the table what its struct is, if it has the primary key of that.
func (r *modelRun) migrate() {
	want, err := modelTable.Schema()
	r.must(err)
	before := r.tab.Schema()
	_, refused := schema.Migrate(before, want)
	r.calm = true
	defer func() { r.calm = false }()
	err = r.defining(func(ctx context.Context) error {
		return typed.Migrate(ctx, r.db, modelTable)
	})
	if before.Name != "t" { // another one was made
		r.must(err)
		r.must(r.db.DropTable(ctx, "t", nil))
		return
	}
	if err != nil && refused != nil {
		return
	}
	r.settled(err)
	left, e := schema.Migrate(r.tab.Schema(), want)
	if err == nil && (e != nil || len(left) > 0 || r.db.Unfinished()) {
		r.Fatalf("left are %v, %v", left, e)
	}
}
