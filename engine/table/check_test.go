package table_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
)

const checkedText = `{"name":"checked","columns":[{"name":"id","type":"int64"},
 {"name":"n","type":"int64","nullable":true}],"primary_key":["id"],"shard":"mix64:4",
 "indexes":[{"name":"by_n","columns":["n"]}]}`

// below returns the check that n is less than most.
func below(tab *table.Table, name string, most int64) schema.Check {
	return schema.Check{Name: name, Condition: expr.Cmp{Op: expr.Lt, L: col(tab, "n"),
		R: expr.Const{Value: expr.Int(most)}}}
}

// TestAddCheckWhileOthersWrite adds a check while rows are written for which it is false, or not.
//
// Promise (tables): A check holds for every row: also when it is added while others write, and by
// whatever way a row is written. Also `TestRun` (`checks`), `TestRandomStatements` in `engine/sql`,
// `TestTypedChecks` in `engine/table/typed`.
func TestAddCheckWhileOthersWrite(t *testing.T) {
	seed := testutil.Seed(t)
	added, refused := 0, 0
	for round := range testutil.Effort(12, 200) {
		rng := rand.New(rand.NewPCG(seed, uint64(round)))
		db := open(t, nil)
		tab := create(t, db, checkedText)
		for i := range 300 {
			ok(t, tab.Insert(ctx, row(t, i, i%100)))
		}
		var group sync.WaitGroup
		begin := make(chan struct{})
		for w := range 3 {
			wrong, start := rng.IntN(80), rng.IntN(40)
			group.Go(func() {
				for i := range 40 {
					if w == 0 && i == start {
						close(begin)
					}
					n := i
					if i == wrong {
						n = 100
					}
					err := tab.Put(ctx, row(t, 1000*(w+1)+i, n))
					if err != nil && (n < 100 || !errors.Is(err, table.ErrCheck)) {
						t.Error(err)
					}
				}
			})
		}
		<-begin
		err := tab.AddCheck(ctx, below(tab, "small", 100), nil)
		group.Wait()
		c := tab.Schema().Check("small")
		switch {
		case err == nil && c != nil && !c.Unverified:
			added++
		case errors.Is(err, table.ErrCheck) && c == nil:
			refused++
			continue
		default:
			t.Fatalf("%v, the check is %+v", err, c)
		}
		verify(t, tab)
		for _, text := range all(t, db, from(tab, nil)) {
			if strings.HasSuffix(text, ", 100") {
				t.Fatalf("the row %s is there, with the check", text)
			}
		}
	}
	t.Logf("%d times added, %d times refused", added, refused)
}

// TestChecksOfWrites writes rows in all ways for which a check is false.
func TestChecksOfWrites(t *testing.T) {
	db := open(t, nil)
	tab := create(t, db, checkedText)
	ok(t, tab.AddCheck(ctx, below(tab, "small", 10), nil))
	wantIs(t, tab.AddCheck(ctx, below(tab, "small", 10), nil), table.ErrExists)
	for _, r := range [][]expr.Value{row(t, 1, 5), row(t, 2, nil)} {
		ok(t, tab.Insert(ctx, r))
	}
	wrong := row(t, 1, 50)
	n := tab.Schema().Column("n")
	set := []table.Assignment{{Column: n, Value: expr.Const{Value: expr.Int(11)}}}
	for name, write := range map[string]func() error{
		"Insert": func() error { return tab.Insert(ctx, row(t, 9, 50)) },
		"Put":    func() error { return tab.Put(ctx, wrong) },
		"Upsert": func() error {
			_, err := tab.Upsert(ctx, slices.Values([][]expr.Value{wrong}))
			return err
		},
		"PutMany": func() error {
			_, err := tab.PutMany(ctx, slices.Values([][]expr.Value{row(t, 3, 1), wrong}))
			return err
		},
		"Update": func() error {
			return tab.Update(ctx, []expr.Value{expr.Int(1)}, func(r []expr.Value) error {
				r[n] = expr.Int(10)
				return nil
			})
		},
		"Set": func() error { return tab.Set(ctx, []expr.Value{expr.Int(2)}, set, nil) },
		"UpdateWhere": func() error {
			_, err := tab.UpdateWhere(ctx, nil, set)
			return err
		},
		"in a transaction": func() error {
			return db.Update(ctx, func(tx *table.Tx) error { return tab.In(tx).Put(ctx, wrong) })
		},
	} {
		var failed *schema.CheckError
		if err := write(); !errors.As(err, &failed) || failed.Check != "small" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := all(t, db, from(tab, nil)); len(got) != 2 {
		t.Errorf("the rows are %q", got)
	}
	ok(t, tab.DropCheck(ctx, "small"))
	wantIs(t, tab.DropCheck(ctx, "small"), table.ErrNoCheck)
	ok(t, tab.Put(ctx, wrong))
}

// Goal: whenever the power fails while checks are added, one that is there is kept by all writes,
// and Resume looks at the rows from before.
//
// Promise (tables): A check that is being added when the power fails is gone, or holds for writes;
// `Resume` looks at the other rows, and removes it if it is false for one of them.
func TestPowerCutsOfAddCheck(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	runPowerCuts(t, testutil.Effort(1, 100), checkSteps, checkChecksCut)
}

// checkSteps adds a check that holds and one that does not.
func checkSteps(t *testing.T, c *cutter, db *table.DB, _ *rand.Rand) error {
	people := create(t, db, peopleText)
	for i := range 100 {
		err := people.Insert(ctx, row(t, i, fmt.Sprint("mail", i), "c", i))
		if err != nil {
			return err
		}
	}
	c.restart(100, 1)
	age := people.Schema().Ref(0, 3)
	for name, most := range map[string]int64{"holds": 100, "fails": 99} {
		err := people.AddCheck(ctx, schema.Check{Name: name, Condition: expr.Cmp{Op: expr.Lt,
			L: age, R: expr.Const{Value: expr.Int(most)}}}, nil)
		if (name == "fails") != errors.Is(err, table.ErrCheck) || name == "holds" && err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// checkChecksCut opens what a power cut has left of checkSteps.
func checkChecksCut(c cut) (unfinished bool, err error) {
	return withCut(c, func(db *table.DB) (bool, error) {
		if err := verifyAll(db, c.acked); err != nil {
			return false, err
		}
		people, err := db.Table("people")
		if err != nil {
			return false, absentTable(err)
		}
		unfinished := db.Unfinished()
		if fails := people.Schema().Check("fails"); fails != nil {
			err := people.Put(ctx, []expr.Value{expr.Int(1), expr.String("mail1"),
				expr.String("c"), expr.Int(99)})
			if !fails.Unverified || !errors.Is(err, table.ErrCheck) {
				return unfinished, fmt.Errorf("the check is %+v, a row: %w", fails, err)
			}
		}
		failing := people.Schema().Check("fails") != nil
		if err := db.Resume(ctx, nil); failing != errors.Is(err, table.ErrCheck) ||
			!failing && err != nil {
			return unfinished, fmt.Errorf("Resume: %w", err)
		}
		holds := people.Schema().Check("holds")
		if db.Unfinished() || people.Schema().Check("fails") != nil ||
			holds != nil && holds.Unverified {
			return unfinished, fmt.Errorf("after Resume: %+v", people.Schema().Checks)
		}
		return unfinished, verifyAll(db, c.acked)
	})
}
