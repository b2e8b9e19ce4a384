package typed_test

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

var ok, wantIs = testutil.OK, testutil.WantIs

// second is the error of a call that returns a value as well.
func second[T any](_ T, err error) error { return err }

// trip has a column of most kinds.
type trip struct {
	User   string           `kstone:"user,pk"`
	At     time.Time        `kstone:"at,sk,ms,desc"`
	Seq    int64            `kstone:"seq,sk"`
	Price  keycodec.Decimal `kstone:"price,decimal(2)"`
	Cents  int64            `kstone:"cents,decimal(2)"`
	Status string           `kstone:"status,null"`
	Note   *string          `kstone:"note"`
	Tags   []string         `kstone:"tags"`
	City   string           `kstone:"city,unicode"`
	Dist   float64          `kstone:"dist"`
	Seats  uint8            `kstone:"seats"`
	Night  bool             `kstone:"night"`
	IP     netip.Addr       `kstone:"ip,null"`
	Blob   []byte           `kstone:"blob,null"`
	Ref    keycodec.UUID    `kstone:"ref"`
	Delta  *int32           `kstone:"delta"`
	Local  int              `kstone:"-"`
}

// tripTable is a table of trips with its columns. Each test has its own.
type tripTable struct {
	*typed.Table[trip]
	user, status, note, city typed.Column[trip, string]
	at                       typed.Column[trip, time.Time]
	seq, cents               typed.Column[trip, int64]
	price                    typed.Column[trip, keycodec.Decimal]
	dist                     typed.Column[trip, float64]
	tags                     typed.ListColumn[trip, string]
	delta                    typed.Column[trip, int32]
}

func newTrips(name string) *tripTable {
	t := typed.NewTable[trip](name)
	return &tripTable{
		Table:  t,
		user:   typed.Col(t, func(o *trip) *string { return &o.User }),
		status: typed.Col(t, func(o *trip) *string { return &o.Status }),
		note:   typed.Ptr(t, func(o *trip) **string { return &o.Note }),
		city:   typed.Col(t, func(o *trip) *string { return &o.City }),
		at:     typed.Col(t, func(o *trip) *time.Time { return &o.At }),
		seq:    typed.Col(t, func(o *trip) *int64 { return &o.Seq }),
		cents:  typed.Col(t, func(o *trip) *int64 { return &o.Cents }),
		price:  typed.Col(t, func(o *trip) *keycodec.Decimal { return &o.Price }),
		dist:   typed.Col(t, func(o *trip) *float64 { return &o.Dist }),
		tags:   typed.List(t, func(o *trip) *[]string { return &o.Tags }),
		delta:  typed.Ptr(t, func(o *trip) **int32 { return &o.Delta }),
	}
}

var ctx = context.Background()

// openTyped opens an empty database with some tables.
func openTyped(t testing.TB, tables ...typed.Definition) *table.DB {
	t.Helper()
	db, err := local.OpenDir(ctx, t.TempDir(),
		&local.Options{Engine: &engine.Options{InMemory: true}})
	ok(t, err)
	t.Cleanup(func() { ok(t, db.Close()) })
	ok(t, typed.Migrate(ctx, db, tables...))
	return db
}

func pointer[V any](v V) *V { return &v }

// day returns a moment of January 2026.
func day(n int) time.Time { return time.Date(2026, 1, n, 12, 0, 0, 0, time.UTC) }

// fullTrip has a value in every field, emptyTrip has as few as possible.
func fullTrip() trip {
	return trip{User: "U\x001", At: day(3), Seq: -7, Price: keycodec.NewDecimal(1250, 2),
		Cents: 399, Status: "paid", Note: pointer("hello"), Tags: []string{"a", "b", "a"},
		City: "Zürich", Dist: -2.5, Seats: 255, Night: true,
		IP: netip.MustParseAddr("10.0.0.1"), Blob: []byte{0, 1}, Ref: keycodec.UUID{1, 2, 3},
		Delta: pointer(int32(-4))}
}

func emptyTrip() trip { return trip{User: "", At: day(1), Tags: []string{}} }

// columnOf returns a nullable column of integers.
func columnOf(name string) schema.Column {
	return schema.Column{Name: name, Type: keycodec.TypeInt64, Nullable: true}
}
