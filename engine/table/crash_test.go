package table_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/openfs"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// Goal: whenever the power fails, no index has a stale or missing entry, what was
// acknowledged is there, and builds and drops that were under way go on.
//
// Method: a program writes rows, builds and drops indexes and a table, on a file system that
// knows what is durable. At some of the operations on it the disk of a power cut is kept;
// each of them is then opened, verified, resumed, and verified again.
//
// Promise (tables): After a power cut no entry is stale or missing, what was acknowledged is
// there, and builds and drops go on.
func TestPowerCutsLeaveIndexesWhole(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	runPowerCuts(t, testutil.Effort(1, 100), crashSteps, checkCut)
}

// Goal: whenever the power fails while a unique index is built for which there are too many
// equal rows, the rows are whole and the index is gone, or is there as one that is being
// built or dropped; then Resume removes it and says why.
//
// Promise (tables): A unique index that cannot be built is gone after a power cut, or removed by
// `Resume`, and the rows are whole.
func TestPowerCutsOfABuildInConflict(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	runPowerCuts(t, testutil.Effort(1, 100), conflictSteps, checkConflictCut)
}

// steps is a program, and check looks at what is left of it.
type (
	steps func(*testing.T, *cutter, *table.DB, *rand.Rand) error
	check func(cut) (unfinished bool, err error)
)

func runPowerCuts(t *testing.T, runs int, program steps, look check) {
	seed := testutil.Seed(t)
	total, unfinished := 0, 0
	// It is possible that none of a program's cuts is in the middle: then others follow.
	for i := 0; i < runs || unfinished == 0 && i < runs+20; i++ {
		cuts, u := crashProgram(t, seed+uint64(i), program, look)
		total, unfinished = total+cuts, unfinished+u
	}
	if unfinished == 0 {
		t.Error("no power cut was in the middle of anything")
	}
	t.Logf("%d power cuts, %d of them with something to resume", total, unfinished)
}

// cut is the disk of a power cut.
type cut struct {
	disk  *vfs.MemFS
	acked int // rows that had been acknowledged
}

// cutter takes cuts.
type cutter struct {
	fs  *vfstest.CrashFS
	mu  sync.Mutex
	rng *rand.Rand
	// Guarded by mu:
	acked int
	all   []cut
	seen  int
	every int // of so many operations one has a cut
}

const mostCuts = 60

func (c *cutter) hook(op vfstest.Op) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen++; c.rng.IntN(c.every) != 0 {
		return nil
	}
	one := cut{c.fs.PowerCut(c.rng, c.rng.Float64()), c.acked}
	if len(c.all) < mostCuts {
		c.all = append(c.all, one)
	} else if i := c.rng.IntN(c.seen/c.every + 1); i < mostCuts {
		c.all[i] = one
	}
	return nil
}

func (c *cutter) ack() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked++
}

// restart forgets the cuts so far. From here on so many rows have been acknowledged, and one
// of so many operations has a cut.
func (c *cutter) restart(acked, every int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked, c.all, c.seen, c.every = acked, nil, 0, every
}

func crashOptions() *engine.Options {
	return &engine.Options{MemtableBytes: 1 << 20, FlushRecords: 100, CacheBytes: 1 << 20}
}

// crashProgram runs one program and checks its power cuts.
func crashProgram(t *testing.T, seed uint64, program steps, look check) (cuts, unfinished int) {
	t.Helper()
	c := &cutter{fs: vfstest.NewCrash(), every: 12, rng: rand.New(rand.NewPCG(seed, 1))}
	e, err := openFS(vfstest.NewFault(c.fs, c.hook), "db", crashOptions())
	ok(t, err)
	db, err := local.Open(ctx, e, nil)
	ok(t, err)
	if err := program(t, c, db, rand.New(rand.NewPCG(seed, 2))); err != nil {
		t.Fatalf("repeat with: %s\n%v", testutil.Repeat(t, seed), err)
	}
	ok(t, errors.Join(db.Close(), e.Close()))
	for i, one := range c.all {
		u, err := look(one)
		if err != nil {
			t.Fatalf("repeat with: %s\npower cut %d: %v",
				testutil.Repeat(t, seed), i, err)
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
	moves := rand.New(rand.NewPCG(rng.Uint64(), 3))
	go func() { // moves entries while indexes are built
		defer wg.Done()
		for range 60 {
			err := people.Update(ctx, []expr.Value{expr.Int(moves.Int64N(300))},
				func(r []expr.Value) error {
					r[3] = expr.Int(moves.Int64N(50))
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

// conflictSteps builds a unique index over rows, few of them equal, in vain.
func conflictSteps(t *testing.T, c *cutter, db *table.DB, rng *rand.Rand) error {
	people := create(t, db, peopleText)
	const first, all = 2*buildRows + 70, 2*buildRows + 80
	var rows [][]expr.Value
	for i := range all {
		age := i
		if i == first-10 {
			age = rng.IntN(i)
		}
		rows = append(rows, row(t, i, fmt.Sprint("mail", i), "c", age))
	}
	if _, err := people.InsertMany(ctx, slices.Values(rows[:first])); err != nil {
		return err
	}
	c.restart(first, 5)
	err := db.CreateIndex(ctx, "people", schema.Index{Name: "by_age", Unique: true,
		Columns: []schema.IndexColumn{{KeyColumn: schema.KeyColumn{Ordinal: 3}}}}, nil)
	if !errors.Is(err, table.ErrUnique) || people.Schema().Index("by_age") != nil {
		return fmt.Errorf("the index was built: %w", err)
	}
	for _, r := range rows[first:] {
		if err := people.Insert(ctx, r); err != nil {
			return err
		}
		c.ack()
	}
	return nil
}

// buildRows is how many rows a chunk of a build has.
const buildRows = 512

// checkConflictCut opens what a power cut has left of conflictSteps.
func checkConflictCut(c cut) (unfinished bool, err error) {
	return withCut(c, func(db *table.DB) (bool, error) {
		if err := verifyAll(db, c.acked); err != nil {
			return false, err
		}
		unfinished := db.Unfinished()
		people, err := db.Table("people")
		if err != nil {
			return false, absentTable(err)
		}
		x := people.Schema().Index("by_age")
		if (x != nil) != unfinished || x != nil && x.State == schema.Ready {
			return unfinished, fmt.Errorf("the index is %+v", x)
		}
		building := x != nil && x.State == schema.Building
		err = db.Resume(ctx, nil)
		if building != errors.Is(err, table.ErrUnique) || !building && err != nil {
			return unfinished, fmt.Errorf("building: %t, Resume: %w", building, err)
		}
		if db.Unfinished() || people.Schema().Index("by_age") != nil {
			return true, errors.New("the index is there after Resume")
		}
		report, err := people.Verify(ctx, nil)
		if err == nil && len(report.Entries) != 2 {
			err = fmt.Errorf("%+v", report)
		}
		if err == nil { // what an entry of the index would have forbidden
			again := []expr.Value{expr.Int(9999), expr.Null(), expr.Null(), expr.Int(3)}
			err = people.Put(ctx, again)
		}
		return unfinished, err
	})
}

func absentTable(err error) error {
	if errors.Is(err, table.ErrNoTable) {
		return nil
	}
	return err
}

// checkCut opens what a power cut has left of crashSteps.
func checkCut(c cut) (unfinished bool, err error) {
	return withCut(c, func(db *table.DB) (bool, error) {
		if err := verifyAll(db, c.acked); err != nil {
			return false, err
		}
		unfinished := db.Unfinished()
		if err := db.Resume(ctx, nil); err != nil {
			return unfinished, err
		}
		if db.Unfinished() {
			return true, errors.New("Resume has left something")
		}
		return unfinished, verifyAll(db, c.acked)
	})
}

// withCut opens the tables that a power cut has left.
func withCut(c cut, look func(*table.DB) (bool, error)) (unfinished bool, err error) {
	e, err := openFS(vfstest.CrashOf(c.disk), "db", crashOptions())
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	db, err := local.Open(ctx, e, nil)
	if err != nil {
		return false, err
	}
	defer db.Close()
	return look(db)
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

// openFS is engine.Open on a file system.
func openFS(fsys vfs.FS, dir string, o *engine.Options) (*engine.DB, error) {
	db, err := openfs.Open(fsys, dir, o)
	if err != nil {
		return nil, err
	}
	return db.(*engine.DB), nil
}
