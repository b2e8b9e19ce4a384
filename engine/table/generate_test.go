package table_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
)

const numberedText = `{"name":"numbered","columns":[{"name":"id","type":"int64",
 "generated":"identity"},{"name":"u","type":"uuid","generated":"uuid"},
 {"name":"n","type":"int64","nullable":true}],"primary_key":["id"]}`

// TestNumbersAreNotMadeTwice inserts rows from several goroutines, with numbers that are made and
// with others, in transactions that are committed or not.
//
// Promise (tables): The numbers of an identity column and the UUIDs that are made are different
// from each other and from all that rows have or had, also after a crash. Also
// `TestPowerCutsOfNumbers`, `TestTypedAuto` in `engine/table/typed`.
func TestNumbersAreNotMadeTwice(t *testing.T) {
	db := open(t, nil)
	tab := create(t, db, numberedText)
	seed := testutil.Seed(t)
	var mu sync.Mutex
	made := map[string]bool{}
	undone := errors.New("undone")
	insert := func(in *table.Table, rng *rand.Rand) error {
		row := tab.Schema().Row()
		if rng.IntN(8) == 0 { // one ahead, that may be taken
			ahead, err := tab.NextValue(ctx, 0)
			if err != nil {
				return err
			}
			n, _ := ahead.AsInt()
			row[0] = expr.Int(n + rng.Int64N(40))
		}
		given := !row[0].IsNull()
		if err := in.Generate(ctx, row); err != nil {
			return err
		}
		if !given {
			mu.Lock()
			defer mu.Unlock()
			for _, v := range row[:2] {
				if made[v.String()] {
					t.Errorf("%s was made twice", v)
				}
				made[v.String()] = true
			}
		}
		if err := in.Insert(ctx, row); err != nil && !errors.Is(err, table.ErrUnique) {
			return fmt.Errorf("%v: %w", row, err)
		}
		return nil
	}
	var group sync.WaitGroup
	for g := range 4 {
		rng := rand.New(rand.NewPCG(seed, uint64(g)))
		group.Go(func() {
			for range testutil.Effort(300, 3000) {
				var err error
				switch rng.IntN(5) {
				case 0:
					err = db.Update(ctx, func(tx *table.Tx) error {
						return errors.Join(insert(tab.In(tx), rng), undone)
					})
				default:
					err = insert(tab, rng)
				}
				if err != nil && !errors.Is(err, undone) {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	verify(t, tab)
	last := row(t, int64(math.MaxInt64), [16]byte{1}, nil)
	ok(t, tab.Insert(ctx, last))
	if _, err := tab.NextValue(ctx, 0); !errors.Is(err, table.ErrInvalid) {
		t.Errorf("after the greatest number: %v", err)
	}
	if _, err := tab.NextValue(ctx, 2); !errors.Is(err, table.ErrInvalid) {
		t.Errorf("of another column: %v", err)
	}
}

// Goal: whenever the power fails, no number is made that was made before, or that a row has or had
// whose write was acknowledged.
func TestPowerCutsOfNumbers(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	runPowerCuts(t, testutil.Effort(1, 100), numberSteps, checkNumbersCut)
}

// numberSteps takes numbers and passes some, in ascending order; acked is the greatest.
func numberSteps(t *testing.T, c *cutter, db *table.DB, rng *rand.Rand) error {
	tab := create(t, db, numberedText)
	c.restart(0, 1)
	for range 12 {
		for range rng.IntN(900) {
			n, err := tab.NextValue(ctx, 0)
			if err != nil {
				return err
			}
			if got, _ := n.AsInt(); got != int64(c.acked+1) {
				return fmt.Errorf("the number %d follows %d", got, c.acked)
			}
			c.ack()
		}
		jump := c.acked + 1 + rng.IntN(3000)
		row := []expr.Value{expr.Int(int64(jump)), expr.UUID([16]byte{}), expr.Null()}
		if err := tab.Put(ctx, row); err != nil {
			return err
		}
		for c.acked < jump {
			c.ack()
		}
		if rng.IntN(2) == 0 {
			if err := tab.Delete(ctx, row[:1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkNumbersCut opens what a power cut has left of numberSteps. It counts those as unfinished
// that lose numbers.
func checkNumbersCut(c cut) (unfinished bool, err error) {
	return withCut(c, func(db *table.DB) (bool, error) {
		tab, err := db.Table("numbered")
		if err != nil {
			return false, absentTable(err)
		}
		n, err := tab.NextValue(ctx, 0)
		if err != nil {
			return false, err
		}
		got, _ := n.AsInt()
		if got <= int64(c.acked) {
			return false, fmt.Errorf("the number %d is made after %d", got, c.acked)
		}
		return got > int64(c.acked+1), nil
	})
}
