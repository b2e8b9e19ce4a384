package table_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// mortal is a store of a process that ends after a number of calls, in the middle of one.
type mortal struct {
	store.Store
	left atomic.Int64 // negative: it has ended
}

var errDead = errors.New("the process has ended")

func (m *mortal) call() error {
	if m.left.Add(-1) < 0 {
		return errDead
	}
	return nil
}

func (m *mortal) Get(ctx context.Context, dst []byte, key store.Key) ([]byte, error) {
	if err := m.call(); err != nil {
		return dst, err
	}
	return m.Store.Get(ctx, dst, key)
}

func (m *mortal) MultiGet(
	ctx context.Context, keys []store.Key, found func(int, store.Item),
) error {
	if err := m.call(); err != nil {
		return err
	}
	return m.Store.MultiGet(ctx, keys, found)
}

func (m *mortal) Scan(ctx context.Context, r store.Range) iter.Seq2[store.Item, error] {
	return func(yield func(store.Item, error) bool) {
		for it, err := range m.Store.Scan(ctx, r) {
			if err == nil {
				err = m.call()
			}
			if !yield(it, err) || err != nil {
				return
			}
		}
	}
}

// Commit ends before or after the commit.
func (m *mortal) Commit(ctx context.Context, w *store.WriteSet) error {
	if err := m.call(); err != nil {
		return err
	}
	return errors.Join(m.Store.Commit(ctx, w), m.call())
}

func (m *mortal) Snapshot(ctx context.Context) (store.Snapshot, error) {
	if err := m.call(); err != nil {
		return nil, err
	}
	return m.Store.Snapshot(ctx)
}

// crowd are processes that write rows of one table, each its own, while one changes definitions.
type crowd struct {
	testing.TB
	next func() store.Store
	stop atomic.Bool
}

// writer is what a process has written.
type writer struct {
	id   int64
	rows map[int64]int64 // column a by id
	last int64           // the row of the call that the process has ended in
}

const crowdRows = 40

// write writes until the end, or that of the process.
func (c *crowd) write(db *table.DB, w *writer, rng *rand.Rand) error {
	tab, err := db.Table("shared")
	if err != nil {
		return err
	}
	for i := 0; !c.stop.Load(); i++ {
		id, a := w.id*1000+rng.Int64N(crowdRows), rng.Int64N(1_000_000)
		_, there := w.rows[id]
		w.last = id
		switch {
		case !there:
			err = c.insert(db, tab, id, a)
		case rng.IntN(4) == 0:
			if err = tab.Delete(ctx, row1(id)); err == nil {
				delete(w.rows, id)
				continue
			}
		default:
			err = tab.Update(ctx, row1(id), func(row []expr.Value) error {
				row[1], row[2] = expr.Int(a), expr.Int(a%7)
				return nil
			})
		}
		if errors.Is(err, table.ErrUnique) {
			continue
		}
		if err != nil {
			return fmt.Errorf("writer %d, row %d: %w", w.id, id, err)
		}
		w.rows[id] = a
	}
	return nil
}

// insert inserts a row that is made for the definition that the process knows.
func (c *crowd) insert(db *table.DB, tab *table.Table, id, a int64) error {
	for {
		def := tab.Schema()
		bound, err := db.Bound(def)
		if err != nil {
			return err
		}
		row := append(row1(id), expr.Int(a), expr.Int(a%7))
		for len(row) < len(def.Columns) {
			row = append(row, expr.Int(id))
		}
		if err = bound.Insert(ctx, row); !errors.Is(err, table.ErrChanged) {
			return err
		}
	}
}

// define changes definitions.
func (c *crowd) define(db *table.DB, rng *rand.Rand, round int) error {
	tab, err := db.Table("shared")
	if err != nil {
		return err
	}
	index := func(x schema.Index) error {
		if tab.Schema().Index(x.Name) != nil {
			return db.DropIndex(ctx, "shared", x.Name, nil)
		}
		err := db.CreateIndex(ctx, "shared", x, nil)
		if errors.Is(err, table.ErrUnique) {
			return nil
		}
		return err
	}
	switch rng.IntN(5) {
	case 0:
		return index(newIndex("by_a", 1, true))
	case 1:
		return index(newIndex("by_b", 2, false))
	case 2:
		v := expr.Int(int64(round))
		extra := fmt.Sprint("extra", round)
		if err := db.AddColumn(ctx, "shared", schema.Column{Name: extra,
			Type: keycodec.TypeInt64, Default: &v}); err != nil {
			return err
		}
		return db.CreateIndex(ctx, "shared", newIndex(extra, len(tab.Schema().Columns)-1, false),
			nil)
	case 3:
		for _, c := range tab.Schema().Columns[3:] {
			if !c.Dropped {
				if tab.Schema().Index(c.Name) != nil {
					return db.DropIndex(ctx, "shared", c.Name, nil)
				}
				return db.DropColumn(ctx, "shared", c.Name)
			}
		}
		return nil
	}
	name := tab.Schema().Columns[1].Name
	return db.RenameColumn(ctx, "shared", name, map[string]string{"a": "aa", "aa": "a"}[name])
}

// Goal: nothing is lost and indexes are what rows say, whatever one process changes, and when
// another ends. Method: three processes write rows of their own, one of them ends in the middle of
// a random call, a fourth changes definitions and ends so, too; a fifth finishes its work. Every
// row is compared with what was acknowledged, and every index with the rows.
//
// Promise (tables): Processes that share storage change tables, columns and indexes while others
// write: an acknowledged row is never lost and its entries are exact, also when processes end in
// the middle of a write, a build or a drop.
func TestProcessesShareOneSchema(t *testing.T) {
	onStorages(t, func(t *testing.T, next func() store.Store) {
		for range testutil.Effort(2, 30) {
			c := &crowd{TB: t, next: next}
			c.run(testutil.Rand(t))
		}
	})
}

func (c *crowd) run(rng *rand.Rand) {
	setup := openShared(c, c.next(), quick)
	tab := create(c, setup, sharedText)
	defer setup.DropTable(ctx, "shared", nil)
	writers := make([]*writer, 3)
	var group sync.WaitGroup
	for i := range writers {
		w := &writer{id: int64(i), rows: map[int64]int64{}}
		writers[i] = w
		s := &mortal{Store: c.next()}
		s.left.Store(1 << 40)
		db, own := openShared(c, s, quick), rand.New(rand.NewPCG(rng.Uint64(), 1))
		if i == 0 {
			s.left.Store(rng.Int64N(2000))
		}
		group.Go(func() {
			if err := c.write(db, w, own); err != nil && !errors.Is(err, errDead) {
				c.Error(err)
			}
		})
	}
	s := &mortal{Store: c.next()}
	s.left.Store(1 << 40)
	definer := openShared(c, s, quick)
	rounds, end := 15, 5+rng.IntN(10)
	for round := range rounds {
		if round == end {
			s.left.Store(rng.Int64N(40))
		}
		if err := c.define(definer, rng, round); errors.Is(err, errDead) {
			break
		} else if err != nil {
			c.Errorf("definition %d: %v", round, err)
		}
	}
	other := openShared(c, c.next(), quick)
	err := other.Resume(ctx, nil)
	if err != nil && !errors.Is(err, table.ErrUnique) {
		c.Error(err)
	}
	c.stop.Store(true)
	group.Wait()
	if other.Unfinished() {
		c.Error("something is unfinished after Resume")
	}
	c.compare(tab, writers)
}

// compare compares the rows with those that were acknowledged.
func (c *crowd) compare(tab *table.Table, writers []*writer) {
	report := verify(c, tab)
	var n int64
	for _, w := range writers {
		for i := range int64(crowdRows) {
			id := w.id*1000 + i
			got, err := tab.Get(ctx, expr.Int(id))
			if err == nil {
				n++
			}
			if w.id == 0 && id == w.last { // written or not
				continue
			}
			want, there := w.rows[id]
			switch {
			case there && err != nil:
				c.Errorf("row %d is lost: %v", id, err)
			case !there && !errors.Is(err, table.ErrNotFound):
				c.Errorf("row %d is there: %v", id, err)
			case there && text(got[1:2]) != fmt.Sprint(want):
				c.Errorf("row %d is %s, not %d", id, text(got), want)
			}
		}
	}
	if n != report.Rows {
		c.Errorf("%d rows, %d are known", report.Rows, n)
	}
}

const overtakenRows = 600 // two chunks

// A build that its process does not finish is taken over, and a process that seems to be dead and
// is not writes nothing more.
func TestBuildIsTakenOver(t *testing.T) {
	onStorages(t, func(t *testing.T, next func() store.Store) {
		tab := create(t, openShared(t, next(), quick), sharedText)
		for i := range overtakenRows {
			insertRows(t, tab, row(t, i, i, i))
		}
		a, b := openShared(t, next(), quick), openShared(t, next(), quick)
		halted, goOn := make(chan struct{}), make(chan struct{})
		done := make(chan error, 1)
		x := newIndex("by_a", 1, false)
		go func() {
			first := sync.OnceFunc(func() { close(halted); <-goOn })
			done <- a.CreateIndex(ctx, "shared", x, func(table.Progress) { first() })
		}()
		<-halted
		if err := b.CreateIndex(ctx, "shared", x, nil); err != nil {
			t.Error(err)
		}
		if err := b.DropIndex(ctx, "shared", "by_a", nil); err != nil {
			t.Error(err)
		}
		close(goOn)
		if err := <-done; err == nil {
			t.Error("the process that was overtaken has built an index that was dropped")
		}
		verify(t, tab)
		prefix := b.Store()
		n := 0
		for it, err := range prefix.Scan(ctx, store.Interval(nil, nil)) {
			ok(t, err)
			if it.Key.PK[0] != 't' && it.Key.PK[0] != 0 {
				n++
			}
		}
		if n != overtakenRows {
			t.Errorf("%d entries of %d rows with one index", n, overtakenRows)
		}
	})
}

// claim is a call on a code that a unique index keeps unique.
type claim struct {
	code int64
	drop bool
}

// Promise (tables): A unique index is exact between processes that share storage.
//
// Method: processes insert and delete rows with a few codes; porcupine looks for a call that no
// order of the calls explains.
func TestUniqueBetweenProcesses(t *testing.T) {
	model := porcupine.Model{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			by := map[int64][]porcupine.Operation{}
			for _, op := range history {
				code := op.Input.(claim).code
				by[code] = append(by[code], op)
			}
			var out [][]porcupine.Operation
			for _, list := range by {
				out = append(out, list)
			}
			return out
		},
		Init: func() any { return false },
		Step: func(taken, input, output any) (bool, any) {
			done := output.(bool)
			if input.(claim).drop {
				return taken.(bool), false
			}
			return done != taken.(bool), true
		},
	}
	onStorages(t, func(t *testing.T, next func() store.Store) {
		create(t, openShared(t, next(), quick), `{"name":"codes","columns":[
 {"name":"id","type":"int64"},{"name":"code","type":"int64"}],"primary_key":["id"],
 "indexes":[{"name":"code","unique":true,"columns":[{"column":"code"}]}]}`)
		var mu sync.Mutex
		var history []porcupine.Operation
		var group sync.WaitGroup
		rng, start := testutil.Rand(t), time.Now()
		for client := range 3 {
			db, own := openShared(t, next(), quick), rand.New(rand.NewPCG(rng.Uint64(), 2))
			tab, err := db.Table("codes")
			ok(t, err)
			held := map[int64]int64{} // row by code
			group.Go(func() {
				for i := range int64(testutil.Effort(150, 1500)) {
					in := claim{code: own.Int64N(3)}
					op := porcupine.Operation{ClientId: client, Call: int64(time.Since(start))}
					id, mine := held[in.code]
					var err error
					if in.drop = mine; mine {
						err = tab.Delete(ctx, row1(id))
						delete(held, in.code)
					} else {
						id = int64(client)*1_000_000 + i
						err = tab.Insert(ctx, append(row1(id), expr.Int(in.code)))
					}
					op.Input, op.Output, op.Return = in, err == nil, int64(time.Since(start))
					if err == nil && !mine {
						held[in.code] = id
					} else if err != nil && (mine || !errors.Is(err, table.ErrUnique)) {
						t.Error(err)
					}
					mu.Lock()
					history = append(history, op)
					mu.Unlock()
				}
			})
		}
		group.Wait()
		if !porcupine.CheckOperations(model, history) {
			t.Errorf("%d calls are not linearizable", len(history))
		}
	})
}
