package typed_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
)

func TestTypedRowsComeBack(t *testing.T) {
	trips := newTrips("trips")
	db := openTyped(t, trips)
	for _, want := range []trip{fullTrip(), emptyTrip()} {
		ok(t, trips.Insert(ctx, db, &want))
		got, err := trips.Get(ctx, db, trips.user.Eq(want.User), trips.at.Eq(want.At),
			trips.seq.Eq(want.Seq))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Get: %+v, want %+v: %v", got, want, err)
		}
		got, err = trips.Where(trips.user.Eq(want.User)).First(ctx, db)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("First: %+v, want %+v: %v", got, want, err)
		}
		loaded := trip{User: want.User, At: want.At, Seq: want.Seq, Local: 5, Status: "old"}
		err = trips.Load(ctx, db, &loaded)
		if loaded.Local != 5 {
			t.Error("Load has changed a field that is no column")
		}
		if loaded.Local = 0; err != nil || !reflect.DeepEqual(loaded, want) {
			t.Errorf("Load: %+v, want %+v: %v", loaded, want, err)
		}
		wantIs(t, trips.Insert(ctx, db, &want), table.ErrUnique)
	}
	if _, err := trips.Get(ctx, db, trips.user.Eq("x"), trips.at.Eq(day(1)),
		trips.seq.Eq(1)); !errors.Is(err, table.ErrNotFound) {
		t.Errorf("a row that is not there: %v", err)
	}
}

// queryTrips are the rows that TestTypedQueries finds.
func queryTrips() []trip {
	var all []trip
	for i := range 40 {
		o := fullTrip()
		o.User, o.Seq, o.At = string(rune('a'+i%4)), int64(i), day(1+i%20)
		o.Status = []string{"", "new", "paid", "sent"}[i%4]
		o.Dist, o.Tags = float64(i), []string{"t" + o.Status}
		all = append(all, o)
	}
	return all
}

// queryCase is a query and, in Go, the rows that it finds.
type queryCase struct {
	name string
	q    typed.Query[trip]
	want func(o trip) bool
	args []typed.Binding
}

func queryCases(trips *tripTable) []queryCase {
	who := typed.Arg[string]{Name: "who"}
	cheap := trips.cents.Arg("cheap")
	far := typed.Select(trips.Where(trips.dist.Eq(3)), trips.user)
	every := func(trip) bool { return true }
	row := typed.RowOf(trips.user.Eq("b"), trips.dist.Eq(9))
	return []queryCase{
		{"all", trips.Where(), every, nil},
		{"eq", trips.Where(trips.status.Eq("paid")),
			func(o trip) bool { return o.Status == "paid" }, nil},
		{"null", trips.Where(trips.status.IsNull()),
			func(o trip) bool { return o.Status == "" }, nil},
		{"not null", trips.Where(trips.status.NotNull()),
			func(o trip) bool { return o.Status != "" }, nil},
		{"and or not", trips.Where(typed.Or(trips.status.Eq("new"), typed.And(
			trips.dist.Ge(10), typed.Not(trips.dist.Between(15, 30))))),
			func(o trip) bool {
				return o.Status == "new" || o.Dist >= 10 && (o.Dist < 15 || o.Dist > 30)
			}, nil},
		{"in", trips.Where(trips.user.In("a", "c", "x")),
			func(o trip) bool { return o.User == "a" || o.User == "c" }, nil},
		{"ne", trips.Where(trips.user.Ne("a")), func(o trip) bool { return o.User != "a" }, nil},
		{"begins", trips.Where(typed.BeginsWith(trips.status, "p")),
			func(o trip) bool { return o.Status == "paid" }, nil},
		{"like", trips.Where(typed.Like(trips.status, "%n%")),
			func(o trip) bool { return o.Status == "new" || o.Status == "sent" }, nil},
		{"contains", trips.Where(trips.tags.Contains("tnew")),
			func(o trip) bool { return o.Status == "new" }, nil},
		{"collation", trips.Where(trips.city.Eq("ZÜRICH")), every, nil},
		{"decimals", trips.Where(trips.cents.Lt(400), trips.cents.Gt(398)), every, nil},
		{"row value", trips.Where(row.Gt()),
			func(o trip) bool { return o.User > "b" || o.User == "b" && o.Dist > 9 }, nil},
		{"row value, ge", trips.Where(row.Ge()),
			func(o trip) bool { return o.User > "b" || o.User == "b" && o.Dist >= 9 }, nil},
		{"row value, lt", trips.Where(row.Lt()),
			func(o trip) bool { return o.User < "b" || o.User == "b" && o.Dist < 9 }, nil},
		{"row value, le", trips.Where(row.Le()),
			func(o trip) bool { return o.User < "b" || o.User == "b" && o.Dist <= 9 }, nil},
		{"argument", trips.Where(trips.user.EqArg(who), trips.cents.GtArg(cheap)),
			func(o trip) bool { return o.User == "c" },
			[]typed.Binding{cheap.Is(398), who.Is("c")}},
		{"subquery", trips.Where(trips.user.InQuery(far)),
			func(o trip) bool { return o.User == "d" }, nil},
		{"anti", trips.Where(typed.Not(trips.user.InQuery(far))),
			func(o trip) bool { return o.User != "d" }, nil},
		{"columns", trips.Where(trips.cents.LtColumn(trips.seq)),
			func(o trip) bool { return o.Seq > 3 }, nil},
		{"never", trips.Where(typed.Or[trip]()), func(trip) bool { return false }, nil},
	}
}

func TestTypedQueries(t *testing.T) {
	trips := newTrips("trips")
	trips.Index("by_status", trips.status.Asc(), trips.dist.Desc()).Include(trips.price)
	trips.Index("by_tag", trips.tags.Each())
	db := openTyped(t, trips)
	all := queryTrips()
	if n, err := trips.InsertMany(ctx, db, all); n != 40 || err != nil {
		t.Fatal(n, err)
	}
	for _, c := range queryCases(trips) {
		t.Run(c.name, func(t *testing.T) {
			want := slices.DeleteFunc(slices.Clone(all), func(o trip) bool { return !c.want(o) })
			checkQuery(t, db, c.q, c.q.OrderBy(trips.seq.Asc()), want, c.args)
		})
	}
}

// checkQuery runs a query in every way.
func checkQuery(t *testing.T, db *table.DB, q, ordered typed.Query[trip], want []trip,
	args []typed.Binding) {
	t.Helper()
	var got, each []trip
	for o, err := range ordered.All(ctx, db, args...) {
		ok(t, err)
		got = append(got, o)
	}
	for o, err := range ordered.Prepare().Each(ctx, db, args...) {
		ok(t, err)
		each = append(each, trip{Seq: o.Seq, User: strings.Clone(o.User),
			Status: strings.Clone(o.Status)})
	}
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
	if !slices.EqualFunc(each, want, func(a, b trip) bool {
		return a.Seq == b.Seq && a.User == b.User && a.Status == b.Status
	}) {
		t.Errorf("Each: %d rows, want %d", len(each), len(want))
	}
	if n, err := q.Count(ctx, db, args...); n != int64(len(want)) || err != nil {
		t.Errorf("Count: %d, want %d: %v", n, len(want), err)
	}
	if ok, err := q.Exists(ctx, db, args...); ok != (len(want) > 0) || err != nil {
		t.Errorf("Exists: %t, %v", ok, err)
	}
}
