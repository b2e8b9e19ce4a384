package typed_test

import (
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
	"github.com/kstonedb/kstone/keycodec"
)

// note has a number and a UUID that are made.
type note struct {
	ID   int64         `kstone:"id,pk,auto"`
	Ref  keycodec.UUID `kstone:"ref,auto"`
	Text string        `kstone:"text"`
}

// TestTypedAuto writes structs with fields that are made, in all ways.
func TestTypedAuto(t *testing.T) {
	notes := typed.NewTable[note]("notes")
	db := openTyped(t, notes)
	rows := []note{{Text: "a"}, {Text: "b"}, {ID: 70, Text: "c"}, {Text: "d"}}
	if n, err := notes.InsertMany(ctx, db, rows); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	one := note{Text: "e"}
	ok(t, notes.Put(ctx, db, &one))
	rows = append(rows, one)
	ref := note{Ref: keycodec.UUID{7}, Text: "f"}
	ok(t, db.Update(ctx, func(tx *table.Tx) error { return notes.Insert(ctx, tx, &ref) }))
	rows = append(rows, ref)
	refs := map[keycodec.UUID]bool{}
	for i, want := range []int64{1, 2, 70, 0, 0, 0} {
		r := rows[i]
		if want == 0 {
			want = rows[i-1].ID + 1 // after the greatest that was given, or the last made
		}
		if r.ID != want || refs[r.Ref] || r.Ref == (keycodec.UUID{}) {
			t.Errorf("row %d is %+v, want the number %d", i, r, want)
		}
		refs[r.Ref] = true
		got := note{ID: r.ID}
		if err := notes.Load(ctx, db, &got); err != nil || got != r {
			t.Errorf("%+v, %v, want %+v", got, err, r)
		}
	}
	type part struct {
		ID   int64  `kstone:"id,pk,auto"`
		Text string `kstone:"text"`
	}
	parts := typed.NewTable[part]("notes")
	ok(t, parts.Insert(ctx, db, &part{Text: "without a UUID"}))
	if !refs[keycodec.UUID{7}] {
		t.Error("a UUID that was given is another one")
	}
	defer func() {
		if recover() == nil {
			t.Error("a text is made")
		}
	}()
	type wrong struct {
		ID string `kstone:"id,pk,auto"`
	}
	typed.NewTable[wrong]("wrong")
}

// TestTypedAutoTime: the option auto sets a zero time to the present one, in the unit of its
// column.
func TestTypedAutoTime(t *testing.T) {
	type stamped struct {
		ID int64     `kstone:"id,pk"`
		At time.Time `kstone:"at,ms,auto"`
	}
	all := typed.NewTable[stamped]("stamped")
	db := openTyped(t, all)
	before := time.Now().Truncate(time.Millisecond)
	made, given := stamped{ID: 1}, stamped{ID: 2, At: time.UnixMilli(5).UTC()}
	for _, row := range []*stamped{&made, &given} {
		ok(t, all.Insert(ctx, db, row))
	}
	if made.At.Before(before) || made.At.After(time.Now()) || given.At != time.UnixMilli(5).UTC() {
		t.Errorf("the times are %v and %v, after %v", made.At, given.At, before)
	}
	got := stamped{ID: 1}
	if err := all.Load(ctx, db, &got); err != nil || !got.At.Equal(made.At) {
		t.Errorf("%v is read as %v, %v", made.At, got.At, err)
	}
}
