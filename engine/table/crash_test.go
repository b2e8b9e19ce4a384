package table_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/vfs"
)

// crashRunsEnv is the number of programs of TestPowerCutsLeaveIndexesWhole.
const crashRunsEnv = "KSTONE_TABLE_CRASHES"

// Goal: whenever the power fails, no index has a stale or missing entry, what was
// acknowledged is there, and builds and drops that were under way go on.
//
// Method: a program writes rows, builds and drops indexes and a table, on a file system that
// knows what is durable. At some of the operations on it the disk of a power cut is kept;
// each of them is then opened, verified, resumed, and verified again.
func TestPowerCutsLeaveIndexesWhole(t *testing.T) {
	runs, seed := 3, rand.Uint64()
	if testing.Short() {
		runs = 1
	}
	if s := os.Getenv(crashRunsEnv); s != "" {
		runs, _ = strconv.Atoi(s)
	}
	total, unfinished := 0, 0
	for i := range runs {
		cuts, u := crashProgram(t, seed+uint64(i))
		total, unfinished = total+cuts, unfinished+u
	}
	t.Logf("%d power cuts from seed %d, %d of them with something to resume", total, seed,
		unfinished)
}

// cut is the disk of a power cut.
type cut struct {
	disk  *vfs.MemFS
	acked int // rows that had been acknowledged
}

// cutter takes cuts.
type cutter struct {
	fs  *vfs.CrashFS
	mu  sync.Mutex
	rng *rand.Rand
	// Guarded by mu:
	acked int
	all   []cut
	seen  int
}

const mostCuts = 60

func (c *cutter) hook(op vfs.Op) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen++; c.rng.IntN(12) != 0 {
		return nil
	}
	one := cut{c.fs.PowerCut(c.rng, c.rng.Float64()), c.acked}
	if len(c.all) < mostCuts {
		c.all = append(c.all, one)
	} else if i := c.rng.IntN(c.seen/12 + 1); i < mostCuts {
		c.all[i] = one
	}
	return nil
}

func (c *cutter) ack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked++
}

func crashOptions() *engine.Options {
	return &engine.Options{MemtableBytes: 1 << 20, FlushRecords: 100, CacheBytes: 1 << 20}
}

// crashProgram runs one program and checks its power cuts.
func crashProgram(t *testing.T, seed uint64) (cuts, unfinished int) {
	t.Helper()
	c := &cutter{fs: vfs.NewCrash(), rng: rand.New(rand.NewPCG(seed, 1))}
	e, err := engine.OpenFS(vfs.NewFault(c.fs, c.hook), "db", crashOptions())
	if err != nil {
		t.Fatal(err)
	}
	db, err := table.Open(ctx, e, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := crashSteps(t, c, db, rand.New(rand.NewPCG(seed, 2))); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if err := errors.Join(db.Close(), e.Close()); err != nil {
		t.Fatal(err)
	}
	for i, one := range c.all {
		u, err := checkCut(one)
		if err != nil {
			t.Fatalf("seed %d, power cut %d: %v", seed, i, err)
		}
		if u {
			unfinished++
		}
	}
	return len(c.all), unfinished
}

// crashSteps inserts rows in the order of their ids, and does everything else beside.
func crashSteps(t *testing.T, c *cutter, db *table.DB, rng *rand.Rand) error {
	people := create(t, db, peopleText)
	other := create(t, db, randomTable(rng, "other"))
	next := 0
	insert := func(n int) (err error) {
		for range n {
			r := row(t, next, fmt.Sprint("mail", next), fmt.Sprint("c", next%7), next%50)
			if err = people.Insert(ctx, r); err != nil {
				return err
			}
			next++
			c.ack()
		}
		return nil
	}
	on := func(o int) []schema.IndexColumn {
		return []schema.IndexColumn{{KeyColumn: schema.KeyColumn{Ordinal: o}}}
	}
	var errs []error
	do := func(err error) { errs = append(errs, err) }
	do(insert(300))
	for range 50 {
		do(other.Put(ctx, randomRow(rng, other.Schema(), 1000)))
	}
	var wg sync.WaitGroup
	wg.Add(1)
	go func() { // moves entries while indexes are built
		defer wg.Done()
		rng := rand.New(rand.NewPCG(rng.Uint64(), 3))
		for range 60 {
			err := people.Update(ctx, []expr.Value{expr.Int(rng.Int64N(300))},
				func(r []expr.Value) error {
					r[3] = expr.Int(rng.Int64N(50))
					return nil
				})
			if err != nil {
				t.Error(err)
			}
		}
	}()
	do(db.CreateIndex(ctx, "people", schema.Index{Name: "by_age", Columns: on(3)}, nil))
	do(insert(20))
	do(db.CreateIndex(ctx, "people", schema.Index{Name: "mail2", Columns: on(1), Unique: true,
		Include: []int{3}}, nil))
	wg.Wait()
	do(db.AddColumn(ctx, "people", schema.Column{Name: "note", Type: people.Schema().
		Columns[1].Type, Nullable: true}))
	do(db.DropIndex(ctx, "people", "by_city", nil))
	do(db.DropTable(ctx, "other", nil))
	_, err := db.Analyze(ctx, "people", nil)
	do(err)
	return errors.Join(errs...)
}

// checkCut opens what a power cut has left.
func checkCut(c cut) (unfinished bool, err error) {
	e, err := engine.OpenFS(vfs.CrashOf(c.disk), "db", crashOptions())
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	db, err := table.Open(ctx, e, nil)
	if err != nil {
		return false, err
	}
	defer db.Close()
	if err := verifyAll(db, c.acked); err != nil {
		return false, err
	}
	unfinished = db.Unfinished()
	if err := db.Resume(ctx, nil); err != nil {
		return unfinished, err
	}
	if db.Unfinished() {
		return true, errors.New("Resume has left something")
	}
	return unfinished, verifyAll(db, c.acked)
}

// verifyAll verifies all tables, and that the people are there that were acknowledged and
// at most one more.
func verifyAll(db *table.DB, acked int) error {
	if _, err := db.Table("people"); err != nil && acked > 0 {
		return err
	}
	for _, tab := range db.Tables() {
		report, err := tab.Verify(ctx, nil)
		if err != nil {
			return err
		}
		if tab.Name() != "people" {
			continue
		}
		if n := int(report.Rows); n < acked || n > acked+1 {
			return fmt.Errorf("%d rows, %d were acknowledged", n, acked)
		}
		for _, x := range tab.Schema().Indexes {
			if x.State == schema.Ready && report.Entries[x.Name] != report.Rows {
				return fmt.Errorf("%d entries in %s of %d rows", report.Entries[x.Name], x.Name,
					report.Rows)
			}
		}
	}
	return nil
}
