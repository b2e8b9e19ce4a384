package typed_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
)

type rider struct {
	ID   string `kstone:"id,pk"`
	Name string `kstone:"name"`
	Club string `kstone:"club,null"`
}

func openRides(t *testing.T) (*table.DB, *tripTable, *typed.Table[rider],
	typed.Column[rider, string]) {
	t.Helper()
	trips, riders := newTrips("trips"), typed.NewTable[rider]("riders")
	id := typed.Col(riders, func(r *rider) *string { return &r.ID })
	db := openTyped(t, trips, riders)
	ok(t, second(trips.InsertMany(ctx, db, queryTrips())))
	for _, name := range []string{"a", "b", "z"} {
		ok(t, riders.Insert(ctx, db, &rider{ID: name, Name: "rider " + name}))
	}
	return db, trips, riders, id
}

// tripSum is what is known about the trips of a status.
type tripSum struct {
	Status             string
	Count, Dists, Cars int64
	Min, Max, Avg      float64
	Sum                expr.Value
	Last               int64
}

// Promise (tables): Groups have aggregates of several columns, conditions on them, and their order.
func TestTypedGroups(t *testing.T) {
	db, trips, _, _ := openRides(t)
	status := typed.By(trips.status, func(s *tripSum) *string { return &s.Status })
	count := typed.Count(trips.seq, func(s *tripSum) *int64 { return &s.Count })
	dists := typed.Count(trips.dist, func(s *tripSum) *int64 { return &s.Dists })
	users := typed.CountDistinct(trips.user, func(s *tripSum) *int64 { return &s.Cars })
	least := typed.Min(trips.dist, func(s *tripSum) *float64 { return &s.Min })
	most := typed.Max(trips.dist, func(s *tripSum) *float64 { return &s.Max })
	avg := typed.Avg(trips.dist, func(s *tripSum) *float64 { return &s.Avg })
	sum := typed.Sum(trips.dist, func(s *tripSum) *expr.Value { return &s.Sum })
	last := typed.Max(trips.seq, func(s *tripSum) *int64 { return &s.Last })
	q := trips.Where(trips.dist.Lt(10)).OrderBy(trips.status.Asc())
	all := typed.GroupBy(q, status, count, dists, users, least, most, avg, sum, last)
	var got []string
	for s, err := range all.All(ctx, db) {
		ok(t, err)
		got = append(got, fmt.Sprint(s.Status, " ", s.Count, s.Dists, s.Cars, s.Min, s.Max, s.Sum,
			s.Avg, s.Last))
	}
	if want := []string{" 3 3 1 0 8 12e0 4 8", "new 3 3 1 1 9 15e0 5 9",
		"paid 2 2 1 2 6 8e0 4 6", "sent 2 2 1 3 7 10e0 5 7"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	twelve := expr.Float(12)
	for _, c := range []struct {
		name    string
		grouped typed.Grouped[trip, tripSum]
		want    []string
	}{
		{"count", all.Having(count.Ge(3)), []string{"", "new"}},
		{"of two", all.Having(count.Eq(2), least.Lt(3)), []string{"paid"}},
		{"or", all.Having(typed.Or(most.Eq(7), sum.Gt(twelve))), []string{"new", "sent"}},
		{"not", all.Having(typed.Not(avg.Ne(4))), []string{"", "paid"}},
		{"again", all.Having(dists.Gt(2)).Having(last.Ge(9)), []string{"new"}},
		{"two columns", all.Having(last.Le(7), most.Lt(7)), []string{"paid"}},
		{"a key", all.Having(status.Gt("new"), count.Lt(3)), []string{"paid", "sent"}},
		{"none", all.Having(count.Gt(3)), nil},
		{"by a value", all.OrderBy(sum.Desc(), status.Asc()), []string{"new", "", "sent", "paid"}},
		{"by two", all.OrderBy(count.Asc(), last.Desc()), []string{"sent", "paid", "new", ""}},
		{"by a key", all.OrderBy(status.Desc()), []string{"", "sent", "paid", "new"}},
		{"a limit", typed.GroupBy(q.Limit(2), status, sum).OrderBy(sum.Asc()),
			[]string{"paid", "sent"}},
		{"keys alone", typed.GroupBy(q, status).OrderBy(status.Asc()),
			[]string{"", "new", "paid", "sent"}},
	} {
		var got []string
		for s, err := range c.grouped.All(ctx, db) {
			if err != nil {
				t.Fatal(c.name, err)
			}
			got = append(got, s.Status)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	_, err := typed.GroupBy(q, status).Having(sum.Gt(twelve)).Explain(ctx, db)
	if !errors.Is(err, table.ErrInvalid) || !strings.Contains(err.Error(), "SUM(dist)") {
		t.Errorf("a condition on what is no output: %v", err)
	}
}

// TestTotalsOfNothing: without values, numbers are 0 and a Value is NULL; what does not fit a type
// is an error.
func TestTotalsOfNothing(t *testing.T) {
	db, trips, _, _ := openRides(t)
	count := typed.Count(trips.seq, func(s *tripSum) *int64 { return &s.Count })
	least := typed.Min(trips.dist, func(s *tripSum) *float64 { return &s.Min })
	avg := typed.Avg(trips.dist, func(s *tripSum) *float64 { return &s.Avg })
	sum := typed.Sum(trips.dist, func(s *tripSum) *expr.Value { return &s.Sum })
	none := trips.Where(trips.dist.Lt(0))
	for s, err := range typed.GroupBy(none, count, least, avg, sum).All(ctx, db) {
		if err != nil || !s.Sum.IsNull() || s.Count != 0 || s.Min != 0 || s.Avg != 0 {
			t.Errorf("of no rows: %+v, %v", s, err)
		}
	}
	half := typed.Avg(trips.dist, func(s *tripSum) *int64 { return &s.Last })
	for _, err := range typed.GroupBy(trips.Where(trips.dist.Lt(2)), half).All(ctx, db) {
		if err == nil || !strings.Contains(err.Error(), `AVG of column "dist" is 0.5e0`) {
			t.Errorf("a half as an int64: %v", err)
		}
	}
}

// TestTotalsOfSmallestUnits: the sum of an int64 with decimal places counts what the column counts.
func TestTotalsOfSmallestUnits(t *testing.T) {
	db, trips, _, _ := openRides(t)
	status := typed.By(trips.status, func(s *tripSum) *string { return &s.Status })
	count := typed.Count(trips.cents, func(s *tripSum) *int64 { return &s.Count })
	most := typed.Max(trips.cents, func(s *tripSum) *int64 { return &s.Last })
	sum := typed.Sum(trips.cents, func(s *tripSum) *int64 { return &s.Dists })
	avg := typed.Avg(trips.cents, func(s *tripSum) *int64 { return &s.Cars })
	money := typed.Sum(trips.cents, func(s *tripSum) *float64 { return &s.Avg })
	for _, cents := range []int64{399, 300} {
		_, err := trips.UpdateWhere(ctx, db, trips.dist.Ge(0), trips.cents.Set(cents))
		ok(t, err)
		groups := 0
		for s, err := range typed.GroupBy(trips.Where(), status, count, most, sum, avg, money).
			Having(sum.Eq(10*cents)).All(ctx, db) {
			groups++
			if err != nil || s.Count != 10 || s.Last != cents || s.Dists != 10*cents ||
				s.Cars != cents || s.Avg != float64(cents)/10 {
				t.Errorf("%d: %+v, %v", cents, s, err)
			}
		}
		if groups != 4 {
			t.Errorf("%d: %d groups", cents, groups)
		}
	}
}

func TestDistinctOfAColumn(t *testing.T) {
	db, trips, _, _ := openRides(t)
	var users []string
	for u, err := range typed.Distinct(trips.Where().OrderBy(trips.user.Desc()),
		trips.user).All(ctx, db) {
		ok(t, err)
		users = append(users, u)
	}
	if !slices.Equal(users, []string{"d", "c", "b", "a"}) {
		t.Errorf("distinct users %q", users)
	}
}

// Promise (tables): Pages follow each other, and the last one, exactly full or not, has no
// cursor.
func TestTypedPages(t *testing.T) {
	db, trips, _, _ := openRides(t)
	q := trips.Where(trips.dist.Ge(3)).OrderBy(trips.status.Desc()).Limit(7)
	var got, want []trip
	for o, err := range trips.Where(trips.dist.Ge(3)).OrderBy(trips.status.Desc()).Limit(
		100).All(ctx, db) {
		ok(t, err)
		want = append(want, o)
	}
	pages := 0
	for cursor := []byte(nil); pages == 0 || cursor != nil; pages++ {
		rows, next, err := q.After(cursor).Page(ctx, db)
		ok(t, err)
		got, cursor = append(got, rows...), next
	}
	if len(want) != 37 || len(got) != 37 || pages != 6 {
		t.Errorf("%d rows on %d pages, %d rows without", len(got), pages, len(want))
	}
	seen := map[int64]bool{}
	for i, o := range got {
		if seen[o.Seq] || o.Status != want[i].Status {
			t.Errorf("row %d is %+v", i, o)
		}
		seen[o.Seq] = true
	}
	// A page that is the last one and full has no cursor; sizes may change between pages.
	size := typed.Arg[int]{Name: "size"}
	sized := trips.Where(trips.dist.Ge(3)).OrderBy(trips.status.Desc()).LimitArg(size)
	rows, next, err := sized.Page(ctx, db, size.Is(36))
	if len(rows) != 36 || next == nil || err != nil {
		t.Errorf("36 of 37 rows: %d, cursor %x, %v", len(rows), next, err)
	}
	if rows, next, err = sized.After(next).Page(ctx, db, size.Is(1)); len(rows) != 1 ||
		next != nil || err != nil {
		t.Errorf("the last row: %d, cursor %x, %v", len(rows), next, err)
	}
	if rows, next, err = q.Limit(37).Page(ctx, db); len(rows) != 37 || next != nil || err != nil {
		t.Errorf("a page that is exactly full: %d rows, cursor %x, %v", len(rows), next, err)
	}
	if rows, next, err = q.Limit(0).Page(ctx, db); len(rows) != 0 || next != nil || err != nil {
		t.Errorf("a page of no rows: %d rows, cursor %x, %v", len(rows), next, err)
	}
	if found, err := q.Limit(0).Exists(ctx, db); found || err != nil {
		t.Errorf("one of no rows: %v, %v", found, err)
	}
	if _, _, err := trips.Where().Page(ctx, db); !errors.Is(err, table.ErrInvalid) {
		t.Errorf("a page without a limit: %v", err)
	}
}

func TestTypedReaders(t *testing.T) {
	db, trips, _, _ := openRides(t)
	snap, err := db.Snapshot(ctx)
	ok(t, err)
	defer snap.Close()
	first := queryTrips()[0]
	key := []typed.Predicate[trip]{trips.user.Eq(first.User), trips.at.Eq(first.At),
		trips.seq.Eq(first.Seq)}
	err = db.Update(ctx, func(tx *table.Tx) error {
		if err := trips.Update(ctx, tx, func(o *trip) error {
			o.Dist, o.Note = 77, nil
			return nil
		}, key...); err != nil {
			return err
		}
		got, err := trips.Get(ctx, tx, key...)
		if err != nil || got.Dist != 77 {
			t.Errorf("in the transaction: %+v, %v", got, err)
		}
		n, err := trips.Where(trips.dist.Eq(77)).Count(ctx, tx)
		if n != 1 || err != nil {
			t.Errorf("in the transaction: %d rows, %v", n, err)
		}
		if got, err = trips.Get(ctx, db, key...); err != nil || got.Dist != 0 {
			t.Errorf("outside: %+v, %v", got, err)
		}
		return nil
	})
	ok(t, err)
	if got, err := trips.Get(ctx, snap, key...); err != nil || !reflect.DeepEqual(got, first) {
		t.Errorf("in the snapshot: %+v, %v", got, err)
	}
	if got, err := trips.Get(ctx, db, key...); err != nil || got.Dist != 77 || got.Note != nil {
		t.Errorf("after: %+v, %v", got, err)
	}
	rows := []trip{{User: first.User, At: first.At, Seq: first.Seq}, {User: "none"},
		{User: first.User, At: first.At, Seq: first.Seq}}
	found, err := trips.MultiGet(ctx, snap, rows)
	if err != nil || !slices.Equal(found, []bool{true, false, true}) ||
		!reflect.DeepEqual(rows[2], first) || rows[1].Dist != 0 {
		t.Errorf("%v, %+v, %v", found, rows, err)
	}
}

func TestTypedWrites(t *testing.T) {
	db, trips, _, _ := openRides(t)
	o := queryTrips()[5]
	key := []typed.Predicate[trip]{trips.seq.Eq(o.Seq), trips.user.Eq(o.User), trips.at.Eq(o.At)}
	err := trips.Set(ctx, db, []typed.Assign[trip]{trips.dist.Add(0.5), trips.status.Set(""),
		trips.note.Set("changed"), trips.cents.Set(5)}, append(key, trips.status.Eq("new"))...)
	ok(t, err)
	got, err := trips.Get(ctx, db, key...)
	if err != nil || got.Dist != 5.5 || got.Status != "" || *got.Note != "changed" ||
		got.Cents != 5 {
		t.Errorf("%+v, %v", got, err)
	}
	err = trips.Delete(ctx, db, append(key, trips.status.Eq("new"))...)
	wantIs(t, err, table.ErrConditionFailed)
	ok(t, trips.Delete(ctx, db, key...))
	wantIs(t, trips.Delete(ctx, db, key...), table.ErrNotFound)
	wantIs(t, trips.Delete(ctx, db, key[:2]...), table.ErrInvalid)
	n, err := trips.UpdateWhere(ctx, db, trips.user.Eq("a"), trips.dist.Set(-1))
	if n != 10 || err != nil {
		t.Errorf("%d rows changed: %v", n, err)
	}
	if n, err := trips.DeleteWhere(ctx, db, trips.dist.Eq(-1)); n != 10 || err != nil {
		t.Errorf("%d rows deleted: %v", n, err)
	}
	ok(t, trips.Put(ctx, db, &got))
	if n, err := trips.Where().Count(ctx, db); n != 30 || err != nil {
		t.Errorf("%d rows left: %v", n, err)
	}
}

// TestConditionsCopyBytes uses the buffer of a condition again while its plan is kept.
func TestConditionsCopyBytes(t *testing.T) {
	type row struct {
		ID   int64    `kstone:"id,pk"`
		Key  []byte   `kstone:"key"`
		Tags [][]byte `kstone:"tags"`
	}
	rows := typed.NewTable[row]("rows")
	key := typed.Col(rows, func(r *row) *[]byte { return &r.Key })
	tags := typed.List(rows, func(r *row) *[][]byte { return &r.Tags })
	db := openTyped(t, rows)
	for i, b := range [][]byte{[]byte("a"), []byte("b")} {
		ok(t, rows.Insert(ctx, db, &row{int64(i), b, [][]byte{b}}))
	}
	for name, where := range map[string]func(b []byte) typed.Predicate[row]{
		"Eq": key.Eq,
		"In": func(b []byte) typed.Predicate[row] { return key.In(b, []byte("z")) },
		"Or": func(b []byte) typed.Predicate[row] {
			return typed.Or(key.Eq(b), key.Eq([]byte("z")))
		},
		"BeginsWith": func(b []byte) typed.Predicate[row] { return typed.BeginsWith(key, b) },
		"RowOf": func(b []byte) typed.Predicate[row] {
			return typed.And(typed.RowOf(key.Eq(b)).Le(), typed.RowOf(key.Eq(b)).Ge())
		},
		"Contains": tags.Contains,
	} {
		buf := []byte("a")
		q := rows.Where(where(buf))
		buf[0] = 'b'
		for range 3 { // its plan is kept from the second time on
			if r, err := q.First(ctx, db); err != nil || r.ID != 0 {
				t.Errorf("%s: %+v, %v, want the row of a", name, r, err)
			}
		}
	}
	after := key.Arg("after")
	buf, found := []byte("A"), 0
	for r, err := range rows.Where(key.GtArg(after)).Prepare().Each(ctx, db, after.Is(buf)) {
		ok(t, err)
		copy(buf, "z")
		found += len(r.Key)
	}
	if found != 2 {
		t.Errorf("a parameter: %d rows, want 2", found)
	}
}
