package typed_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
)

// nick is a row. All but its key may be NULL.
type nick struct {
	Kind string  `kstone:"kind,pk"`
	Name *string `kstone:"name"`
	Who  *string `kstone:"who"`
}

// ride is a trip with its rider and, if there is one, a nick.
type ride struct {
	Trip  trip
	Rider rider
	Nick  *nick
}

// rides is the join of three tables, with columns of each.
type rides struct {
	*typed.Join[ride]
	user, id, riderName, kind, nickName, status typed.Column[ride, string]
	seq                                         typed.Column[ride, int64]
	dist                                        typed.Column[ride, float64]
	tags                                        typed.ListColumn[ride, string]
}

func openJoin(t *testing.T) (*table.DB, *rides) {
	t.Helper()
	db, trips, riders, _ := openRides(t)
	nicks := typed.NewTable[nick]("nicks")
	ok(t, typed.Migrate(ctx, db, nicks))
	rows := []nick{{"a", pointer("ace"), nil}, {"", nil, nil}}
	ok(t, second(nicks.InsertMany(ctx, db, rows)))
	j := typed.NewJoin[ride](trips.Table, riders, nicks)
	return db, &rides{Join: j,
		user:      typed.Col(j, func(r *ride) *string { return &r.Trip.User }),
		status:    typed.Col(j, func(r *ride) *string { return &r.Trip.Status }),
		seq:       typed.Col(j, func(r *ride) *int64 { return &r.Trip.Seq }),
		dist:      typed.Col(j, func(r *ride) *float64 { return &r.Trip.Dist }),
		tags:      typed.List(j, func(r *ride) *[]string { return &r.Trip.Tags }),
		id:        typed.Col(j, func(r *ride) *string { return &r.Rider.ID }),
		riderName: typed.Col(j, func(r *ride) *string { return &r.Rider.Name }),
		kind:      typed.Col(j, func(r *ride) *string { return &r.Nick.Kind }),
		nickName:  typed.Ptr(j, func(r *ride) **string { return &r.Nick.Name }),
	}
}

// all is the join of each trip with its rider and the nick of the same name.
func (r *rides) all() typed.Query[ride] {
	return r.On(r.user.EqColumn(r.id), r.kind.EqColumn(r.user))
}

// Promise (tables): A join of three tables has conditions on each, an order, limit and offset,
// groups and single columns, and a row without a partner is nil. Also
// `TestLeftJoinSeesPartnersOfNulls`.
func TestJoinsOfThreeTables(t *testing.T) {
	db, r := openJoin(t)
	text := func(x ride) string {
		nick := "-"
		if x.Nick != nil {
			nick = *x.Nick.Name
		}
		return fmt.Sprint(x.Trip.Seq, x.Trip.User, " ", x.Rider.Name, " ", nick)
	}
	low := typed.Arg[int]{Name: "offset"}
	for _, c := range []struct {
		name string
		q    typed.Query[ride]
		want []string
	}{
		{"an order", r.all().Where(r.dist.Lt(6)).OrderBy(r.seq.Desc()),
			[]string{"5b rider b -", "4a rider a ace", "1b rider b -", "0a rider a ace"}},
		{"a limit and an offset", r.all().OrderBy(r.riderName.Desc(), r.seq.Asc()).
			Limit(2).Offset(9), []string{"37b rider b -", "0a rider a ace"}},
		{"an offset as an argument", r.all().OrderBy(r.seq.Asc()).Limit(1).OffsetArg(low),
			[]string{"4a rider a ace"}},
		{"conditions on all", r.all().Where(r.dist.Le(4), r.riderName.Ge("rider"),
			r.kind.Eq("a")).OrderBy(r.seq.Asc()), []string{"0a rider a ace", "4a rider a ace"}},
		{"no partner", r.all().Where(r.kind.IsNull(), r.seq.Lt(8)).OrderBy(r.seq.Asc()),
			[]string{"1b rider b -", "5b rider b -"}},
		{"a condition of On", r.On(r.user.EqColumn(r.id), r.kind.EqColumn(r.user), r.kind.Ne("a")).
			Where(r.seq.Lt(2)).OrderBy(r.seq.Asc()), []string{"0a rider a -", "1b rider b -"}},
		{"a list and a semi join", r.all().Where(r.tags.Contains("t"), r.user.InQuery(
			typed.Select(r.all().Where(r.seq.Eq(4)), r.id))).OrderBy(r.seq.Asc()).Limit(1),
			[]string{"0a rider a ace"}},
	} {
		var got, prepared []string
		for x, err := range c.q.All(ctx, db, low.Is(2)) {
			if err != nil {
				t.Fatal(c.name, err)
			}
			got = append(got, text(x))
		}
		for x, err := range c.q.Prepare().Each(ctx, db, low.Is(2)) {
			if err != nil {
				t.Fatal(c.name, err)
			}
			prepared = append(prepared, text(*x))
		}
		if !slices.Equal(got, c.want) || !slices.Equal(prepared, c.want) {
			t.Errorf("%s: %q, prepared %q, want %q", c.name, got, prepared, c.want)
		}
		n, err := c.q.Count(ctx, db, low.Is(2))
		first, firstErr := c.q.First(ctx, db, low.Is(2))
		if err != nil || firstErr != nil || int(n) != len(c.want) || text(first) != c.want[0] {
			t.Errorf("%s: %d rows, the first %q: %v, %v", c.name, n, text(first), err, firstErr)
		}
	}
	none := r.all().Where(r.seq.Lt(0))
	if _, err := none.First(ctx, db); !errors.Is(err, table.ErrNotFound) {
		t.Errorf("the first of none: %v", err)
	}
}

func TestColumnsAndGroupsOfJoins(t *testing.T) {
	db, r := openJoin(t)
	var got []string
	for x, err := range r.all().Columns(r.seq, r.riderName, r.nickName).Where(r.seq.Lt(2)).OrderBy(
		r.seq.Asc()).All(ctx, db) {
		if err != nil || x.Trip.User != "" || x.Rider.ID != "" {
			t.Fatalf("%+v, %v", x, err)
		}
		got = append(got, fmt.Sprint(x.Trip.Seq, x.Rider.Name, x.Nick != nil))
	}
	if want := []string{"0rider atrue", "1rider bfalse"}; !slices.Equal(got, want) {
		t.Errorf("columns: %q, want %q", got, want)
	}
	got = nil
	type sum struct {
		rider, status string
		kind          *string
		count         int64
		most          float64
	}
	count := typed.Count(r.seq, func(s *sum) *int64 { return &s.count })
	rider := typed.By(r.riderName, func(s *sum) *string { return &s.rider })
	groups := typed.GroupBy(r.all(), rider, count,
		typed.By(r.status, func(s *sum) *string { return &s.status }),
		typed.ByPtr(r.kind, func(s *sum) **string { return &s.kind }),
		typed.Max(r.dist, func(s *sum) *float64 { return &s.most }))
	for s, err := range groups.Having(count.Ge(2)).OrderBy(rider.Asc()).All(ctx, db) {
		ok(t, err)
		kind := "NULL"
		if s.kind != nil {
			kind = *s.kind
		}
		got = append(got, fmt.Sprint(s.rider, s.status, kind, s.count, s.most))
	}
	if !slices.Equal(got, []string{"rider aa10 36", "rider bnewNULL10 37"}) {
		t.Errorf("groups: %q", got)
	}
	var names []string
	for name, err := range typed.Distinct(r.all().OrderBy(r.riderName.Desc()), r.riderName).All(ctx,
		db) {
		ok(t, err)
		names = append(names, name)
	}
	if !slices.Equal(names, []string{"rider b", "rider a"}) {
		t.Errorf("names: %q", names)
	}
}

// TestColumnsOfOneTable: a query of some columns reads an index that has them, not the row.
func TestColumnsOfOneTable(t *testing.T) {
	db, trips, _, _ := openRides(t)
	q := trips.Where(trips.seq.Le(4)).Columns(trips.seq, trips.dist).OrderBy(trips.seq.Desc())
	var got []string
	for o, err := range q.All(ctx, db) {
		if err != nil || o.User != "" || o.Tags != nil {
			t.Fatalf("%+v, %v", o, err)
		}
		got = append(got, fmt.Sprint(o.Seq, " ", o.Dist))
	}
	if want := []string{"4 4", "3 3", "2 2", "1 1", "0 0"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	page, next, err := q.Limit(3).Page(ctx, db)
	if err != nil || len(page) != 3 || next == nil || page[2].Seq != 2 || page[2].User != "" {
		t.Fatalf("a page of columns: %+v, %v", page, err)
	}
	page, next, err = q.Limit(3).After(next).Page(ctx, db)
	if err != nil || len(page) != 2 || next != nil || page[0].Dist != 1 {
		t.Errorf("the next page of columns: %+v, %v", page, err)
	}
}

// Promise (tables): Pages of a join follow each other exactly, also where rows have no partner.
func TestPagesOfJoins(t *testing.T) {
	db, r := openJoin(t)
	size := typed.Arg[int]{Name: "size"}
	for name, q := range map[string]typed.Query[ride]{
		"an order":     r.all().OrderBy(r.riderName.Desc(), r.dist.Asc()),
		"a left table": r.all().OrderBy(r.kind.Desc()),
		"no order":     r.all(),
		"columns":      r.all().Columns(r.seq, r.kind).OrderBy(r.status.Asc()),
	} {
		var want []int64
		for x, err := range q.All(ctx, db) {
			if err != nil {
				t.Fatal(name, err)
			}
			want = append(want, x.Trip.Seq)
		}
		for most := 1; most <= len(want)+1; most += 3 {
			var got []int64
			for cursor := []byte(nil); len(got) == 0 || cursor != nil; {
				rows, next, err := q.LimitArg(size).After(cursor).Page(ctx, db, size.Is(most))
				if err != nil || len(rows) == 0 {
					t.Fatalf("%s, pages of %d: %d rows, %v", name, most, len(rows), err)
				}
				for _, x := range rows {
					got = append(got, x.Trip.Seq)
				}
				cursor = next
			}
			if name != "an order" { // rows that are equal in it come in another order
				slices.Sort(got)
				slices.Sort(want)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, pages of %d: %d, want %d", name, most, got, want)
			}
		}
	}
}

// TestLeftJoinSeesPartnersOfNulls: what is NULL or a zero value in a partner does not make
// it none.
func TestLeftJoinSeesPartnersOfNulls(t *testing.T) {
	type pair struct {
		Left  nick
		Right *nick
	}
	nicks := typed.NewTable[nick]("nicks")
	pairs := typed.NewJoin[pair](nicks, nicks)
	left := typed.Col(pairs, func(p *pair) *string { return &p.Left.Kind })
	right := typed.Col(pairs, func(p *pair) *string { return &p.Right.Kind })
	db := openTyped(t, nicks)
	ok(t, second(nicks.InsertMany(ctx, db, []nick{{}, {Kind: "b"}})))
	partners := map[string]bool{}
	for p, err := range pairs.On(left.EqColumn(right), right.Ne("b")).All(ctx, db) {
		ok(t, err)
		partners[p.Left.Kind] = p.Right != nil
	}
	if !partners[""] || partners["b"] || len(partners) != 2 {
		t.Errorf("partners: %v", partners)
	}
}

// TestWrongJoins: what the compiler does not see is an error that names the field or the column.
func TestWrongJoins(t *testing.T) {
	db, r := openJoin(t)
	for want, q := range map[string]typed.Query[ride]{
		"field Nick, the rows of nicks":   r.On(r.user.EqColumn(r.id)),
		"field Rider, the rows of riders": r.On(r.kind.EqColumn(r.user)),
		"dist > ": r.On(r.user.EqColumn(r.id), r.kind.EqColumn(r.user),
			r.dist.Gt(5)),
	} {
		_, err := q.Count(ctx, db)
		if !errors.Is(err, table.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	trips, riders := newTrips("trips"), typed.NewTable[rider]("riders")
	for want, make := range map[string]func(){
		"field Rider": func() { typed.NewJoin[ride](trips.Table, trips.Table, trips.Table) },
		"1 tables":    func() { typed.NewJoin[struct{ Trip trip }](trips.Table) },
		"field Trip":  func() { typed.NewJoin[struct{ Trip, Rider *trip }](trips.Table, riders) },
		"selector":    func() { typed.Col(r.Join, func(*ride) *string { return new(string) }) },
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, want) {
					t.Errorf("want a panic with %q: %s", want, text)
				}
			}()
			make()
		}()
	}
}
