package typed_test

import (
	"errors"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
	"github.com/kstonedb/kstone/internal/testutil"
)

// TestFirstByKey checks queries for a primary key, which need no plan, and those that look
// like one.
func TestFirstByKey(t *testing.T) {
	db, sales := openSales(t)
	shop := typed.Col(sales, func(s *sale) *string { return &s.Shop })
	at := typed.Col(sales, func(s *sale) *time.Time { return &s.At })
	seq := typed.Col(sales, func(s *sale) *int64 { return &s.Seq })
	want := saleOf(7)
	key := sales.Where(shop.Eq(want.Shop), seq.Eq(want.Seq))
	atArg := at.Arg("at")
	within := want.At.Add(time.Nanosecond) // no time that the column can hold
	for _, c := range []struct {
		name     string
		q        typed.Query[sale]
		bindings []typed.Binding
		found    bool
	}{
		{"constants", key.Where(at.Eq(want.At)), nil, true},
		{"a parameter", key.Where(at.EqArg(atArg)), []typed.Binding{atArg.Is(want.At)}, true},
		{"no such row", key.Where(at.Eq(want.At.Add(-time.Hour))), nil, false},
		{"between two times", key.Where(at.Eq(within)), nil, false},
		{"a parameter between", key.Where(at.EqArg(atArg)), []typed.Binding{atArg.Is(within)},
			false},
		{"a part of the key", key, nil, true},
		{"twice the same", key.Where(seq.Eq(want.Seq)), nil, true},
		{"twice another", key.Where(seq.Eq(want.Seq + 1)), nil, false},
		{"more than the key", key.Where(at.Eq(want.At), seq.Gt(want.Seq)), nil, false},
		{"no row wanted", key.Where(at.Eq(want.At)).Limit(0), nil, false},
		{"after it", key.Where(at.Eq(want.At)).Offset(1), nil, false},
	} {
		row, err := c.q.First(ctx, db, c.bindings...)
		missing := errors.Is(err, table.ErrNotFound)
		if c.found && (err != nil || row != want) || !c.found && !missing {
			t.Errorf("%s: %+v, %v", c.name, row, err)
		}
	}
	if row, err := key.Where(at.EqArg(atArg)).First(ctx, db); err == nil ||
		errors.Is(err, table.ErrNotFound) {
		t.Errorf("without the parameter: %+v, %v", row, err)
	}
	cut := key.Where(at.EqArg(atArg))
	if row, err := cut.Prepare().First(ctx, db, atArg.Is(within)); err != nil || row != want {
		t.Errorf("prepared, a parameter between: %+v, %v", row, err)
	}
	more := cut.Where(typed.Col(sales, func(s *sale) *int64 { return &s.Amount }).Eq(want.Amount))
	row, err := more.Prepare().First(ctx, db, atArg.Is(within))
	if !errors.Is(err, table.ErrNotFound) {
		t.Errorf("prepared, more than the key, a parameter between: %+v, %v", row, err)
	}
	testutil.SkipUnderRace(t, "it allocates")
	if n := testutil.AllocsPerRun(100, func() {
		if _, err := key.Where(at.Eq(want.At)).First(ctx, db); err != nil {
			t.Error(err)
		}
	}); n > 20 {
		t.Errorf("%v allocations", n)
	}
	prepared := key.Where(at.Eq(want.At)).Prepare()
	if n := testutil.AllocsPerRun(100, func() {
		if _, err := prepared.First(ctx, db); err != nil {
			t.Error(err)
		}
	}); n > 2 { // its strings
		t.Errorf("prepared: %v allocations", n)
	}
}
