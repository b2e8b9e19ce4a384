package typed_test

import (
	"errors"
	"testing"

	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
)

// TestTypedChecks writes structs for which a check is false, and migrates checks.
func TestTypedChecks(t *testing.T) {
	readings := func(most int32) *typed.Table[reading] {
		x := typed.NewTable[reading]("readings")
		seq := typed.Col(x, func(r *reading) *int64 { return &r.Seq })
		n := typed.Col(x, func(r *reading) *int32 { return &r.N })
		x.Check("small", n.Lt(most))
		return x.Check("counted", typed.Or(seq.Ge(0), n.Eq(0)))
	}
	ten := readings(10)
	db := openTyped(t, ten)
	ok(t, second(ten.InsertMany(ctx, db, []reading{{"a", 1, 9}, {"a", -1, 0}})))
	for check, r := range map[string]reading{"small": {"a", 1, 10}, "counted": {"a", -2, 1}} {
		for name, write := range map[string]func() error{
			"Insert": func() error { return ten.Insert(ctx, db, &reading{"b", r.Seq, r.N}) },
			"Put":    func() error { return ten.Put(ctx, db, &r) },
			"PutMany": func() error {
				_, err := ten.PutMany(ctx, db, []reading{{"c", 1, 1}, r})
				return err
			},
		} {
			var failed *schema.CheckError
			if err := write(); !errors.As(err, &failed) || failed.Check != check {
				t.Errorf("%s of %+v: %v", name, r, err)
			}
		}
	}
	if n, err := ten.Where().Count(ctx, db); n != 2 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
	five := readings(5)
	wantIs(t, typed.Migrate(ctx, db, five), table.ErrCheck)
	if err := five.Insert(ctx, db, &reading{"d", 1, 20}); err != nil {
		t.Errorf("after a check was dropped and not added: %v", err)
	}
	fifty := readings(50)
	ok(t, typed.Migrate(ctx, db, fifty))
	wantIs(t, fifty.Put(ctx, db, &reading{"d", 1, 50}), table.ErrCheck)
}
