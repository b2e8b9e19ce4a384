package table_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/store/remote/remotetest"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
)

// Method: random writes to a table with a TTL while its clock goes forwards and backwards, by
// seconds or by more than a row lives, also within a write. At every time each row has its entries
// and each entry its row, unique values are unique, and a value is taken if a row that is there has
// it. Nothing is merged meanwhile.
//
// Promise (tables): Whichever way the clock goes, and whichever clocks processes that share a store
// have, answers by indexes are those of scans, and unique values are unique.
func TestIndexesAtEveryTime(t *testing.T) {
	seed := testutil.Seed(t)
	for i := range testutil.Effort(12, 600) {
		for _, remote := range []bool{false, true} {
			name := fmt.Sprintf("%d, remote %v", i, remote)
			if !t.Run(name, func(t *testing.T) {
				steps := &clockSteps{T: t, rng: rand.New(rand.NewPCG(seed, uint64(i)))}
				steps.run(remote)
			}) {
				t.FailNow()
			}
		}
	}
}

// clockSteps is a table whose rows live for 100 seconds, and its clock.
type clockSteps struct {
	*testing.T
	rng   *rand.Rand
	clock clock
	leap  atomic.Int64 // how often the clock is looked at until it leaps; 0 is never
	by    atomic.Int64 // by how many milliseconds it leaps
	db    *table.DB
	tab   *table.Table
}

func (s *clockSteps) now() time.Time {
	if s.leap.Load() > 0 && s.leap.Add(-1) == 0 {
		s.clock.ms.Add(s.by.Load())
	}
	return s.clock.now()
}

// step returns by how much the clock is set, forwards more often than back.
func (s *clockSteps) step() int64 {
	if s.rng.IntN(2) == 0 {
		return s.rng.Int64N(40_000)
	}
	return s.rng.Int64N(1_000_000) - 500_000
}

func (s *clockSteps) run(remote bool) {
	s.clock.ms.Store(1_000_000_000)
	if remote {
		storage := remotetest.New(false, 100)
		storage.Now = s.now
		db, err := table.OpenStore(ctx, storage, &table.Options{Lease: quick, Clock: s.now})
		ok(s.T, err)
		s.Cleanup(func() { ok(s.T, errors.Join(db.Close(), storage.Close())) })
		s.db = db
	} else {
		s.db = openOn(s.T, engine.Options{Clock: s.now}, &table.Options{Clock: s.now})
	}
	s.tab = create(s.T, s.db, `{"name":"t","columns":[{"name":"id","type":"int64"},
	 {"name":"a","type":"int64","nullable":true},{"name":"b","type":"int64"},
	 {"name":"c","type":"int64"},
	 {"name":"seen","type":"time","unit":"ms","nullable":true}],"primary_key":["id"],
	 "ttl":{"column":"seen","after":"100s"},"indexes":[
	 {"name":"by_a","columns":["a"],"unique":true},{"name":"by_b","columns":["b"],"include":["c"]},
	 {"name":"by_c","columns":["c"],"local":true},
	 {"name":"by_bc","columns":["b","c"],"unique":true,
	  "where":{"op":"isnull","args":[{"op":"column","name":"a"}]}}]}`)
	for range 60 {
		s.by.Store(s.step())
		s.leap.Store(int64(s.rng.IntN(6)))
		s.write()
		s.leap.Store(0)
		s.clock.ms.Add(s.step())
		s.check()
	}
}

// row returns a row of few values, which are often taken.
func (s *clockSteps) row() []expr.Value {
	r := row(s.T, s.rng.IntN(8), s.rng.IntN(8), s.rng.IntN(8), s.rng.IntN(8),
		s.clock.now().Add(time.Duration(s.rng.IntN(100_000))*time.Millisecond))
	switch s.rng.IntN(10) {
	case 0:
		r[1] = expr.Null()
	case 1:
		r[4] = expr.Null()
	}
	return r
}

// write makes a random change. It may be refused, since a value is taken.
func (s *clockSteps) write() {
	rows := [][]expr.Value{s.row(), s.row(), s.row()}[:1+s.rng.IntN(3)]
	kind := s.rng.IntN(6)
	change := func(tab *table.Table) (err error) {
		switch kind {
		case 0:
			err = tab.Insert(ctx, rows[0])
		case 1:
			_, err = tab.InsertMany(ctx, slices.Values(rows))
		case 2:
			err = tab.Put(ctx, rows[0])
		case 3:
			_, err = tab.Upsert(ctx, slices.Values(rows))
		case 4:
			err = tab.Update(ctx, rows[0][:1], func(r []expr.Value) error {
				copy(r, s.row())
				return nil
			})
		case 5:
			err = tab.Delete(ctx, rows[0][:1])
		}
		return err
	}
	var err error
	if s.rng.IntN(3) == 0 {
		err = updating(s.db, func(in func(*table.Table) *table.Table) error {
			return change(in(s.tab))
		})
	} else {
		err = change(s.tab)
	}
	if !errors.Is(err, table.ErrUnique) && !errors.Is(err, table.ErrNotFound) {
		ok(s.T, err)
	}
}

func (s *clockSteps) check() {
	s.Helper()
	verify(s.T, s.tab)
	taken := map[string]bool{}
	for _, x := range all(s.T, s.db, from(s.tab, nil)) {
		var id int
		var a string
		_, err := fmt.Sscanf(x, "%d, %s", &id, &a)
		ok(s.T, err)
		if a != "NULL," && taken[a] {
			s.Errorf("two rows have %s", a)
		}
		taken[a] = true
	}
	v := s.rng.IntN(8)
	for i, name := range []string{"by_a", "by_b", "by_c"} {
		by := from(s.tab, eq(s.tab.Schema().Ref(0, i+1), v))
		by.Hints.Index = map[int]string{0: name}
		scan := from(s.tab, by.Where)
		scan.Hints.Index = map[int]string{0: plan.PrimaryIndex}
		got, want := all(s.T, s.db, by), all(s.T, s.db, scan)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			s.Errorf("%s = %d: %q, by a scan %q", name, v, got, want)
		}
	}
	r := row(s.T, 100, v, 0, 0, s.clock.now())
	err := s.tab.Insert(ctx, r)
	if want := taken[fmt.Sprintf("%d,", v)]; errors.Is(err, table.ErrUnique) != want {
		s.Errorf("a = %d is taken: %v, want %v", v, err, want)
	}
	if err == nil {
		ok(s.T, s.tab.Delete(ctx, r[:1]))
	}
	if s.Failed() {
		s.FailNow()
	}
}
