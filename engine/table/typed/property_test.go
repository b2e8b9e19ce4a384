package typed_test

import (
	"math"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/table/typed"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
	"pgregory.net/rapid"
)

// drawFloat draws any float, NaN and infinities included.
func drawFloat(r *rapid.T) float64 {
	special := rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1)})
	return rapid.OneOf(special, rapid.Float64()).Draw(r, "float")
}

func drawBytes(r *rapid.T, n int) []byte {
	return rapid.SliceOfN(rapid.Byte(), n, n).Draw(r, "bytes")
}

// drawAddr draws an IPv4 or IPv6 address, or none.
func drawAddr(r *rapid.T) (addr netip.Addr) {
	if n := rapid.SampledFrom([]int{0, 4, 16}).Draw(r, "address bytes"); n > 0 {
		addr, _ = netip.AddrFromSlice(drawBytes(r, n))
	}
	return addr
}

// sameStruct is reflect.DeepEqual for which NaN in the given fields is equal to itself.
func sameStruct[T any](a, b T, floats ...func(*T) *float64) bool {
	for _, f := range floats {
		if math.IsNaN(*f(&a)) && math.IsNaN(*f(&b)) {
			*f(&a), *f(&b) = 0, 0
		}
	}
	return reflect.DeepEqual(a, b)
}

// drawTrip draws a trip whose times are whole milliseconds.
func drawTrip(r *rapid.T) trip {
	text := rapid.StringN(0, 8, 40)
	o := trip{User: text.Draw(r, "user"), Seq: rapid.Int64().Draw(r, "seq"),
		At:     time.UnixMilli(rapid.Int64Range(-1e14, 1e14).Draw(r, "at")).UTC(),
		Price:  keycodec.NewDecimal(rapid.Int64().Draw(r, "price"), 2),
		Cents:  rapid.Int64().Draw(r, "cents"),
		Status: text.Draw(r, "status"), City: text.Draw(r, "city"),
		Tags: rapid.SliceOfN(text, 0, 3).Draw(r, "tags"),
		Dist: drawFloat(r), IP: drawAddr(r), Ref: keycodec.UUID(drawBytes(r, 16)),
		Seats: rapid.Uint8().Draw(r, "seats"),
		Night: rapid.Bool().Draw(r, "night")}
	if rapid.Bool().Draw(r, "has note") {
		o.Note = pointer(text.Draw(r, "note"))
	}
	if rapid.Bool().Draw(r, "has delta") {
		o.Delta = pointer(rapid.Int32().Draw(r, "delta"))
	}
	if rapid.Bool().Draw(r, "has blob") {
		o.Blob = rapid.SliceOfN(rapid.Byte(), 1, 5).Draw(r, "blob")
	}
	return o
}

// valuesOf returns a trip as a row of values, by hand.
func valuesOf(r *rapid.T, o *trip) []expr.Value {
	var row []expr.Value
	for _, v := range []any{o.User, o.At, o.Seq, o.Price, keycodec.NewDecimal(o.Cents, 2), o.Status,
		o.Note, o.Tags, o.City, o.Dist, o.Seats, o.Night, o.IP, o.Blob, o.Ref, o.Delta} {
		value, err := expr.From(v)
		ok(r, err)
		row = append(row, value)
	}
	if o.Status == "" {
		row[5] = expr.Null()
	}
	if o.Blob == nil {
		row[13] = expr.Null()
	}
	return row
}

// TestTypedIsUntyped: what one of the two layers writes the other one reads.
//
// Promise (tables): Structs and rows of values are the same rows, with NaN and addresses; rows
// outlive their struct. Also `TestRowsOutliveTheirStruct`.
func TestTypedIsUntyped(t *testing.T) {
	trips := newTrips("trips")
	db := openTyped(t, trips)
	handle, err := db.Table("trips")
	ok(t, err)
	dist := func(o *trip) *float64 { return &o.Dist }
	testutil.Check(t, func(r *rapid.T) {
		o := drawTrip(r)
		values := valuesOf(r, &o)
		if rapid.Bool().Draw(r, "typed") {
			err = trips.Put(ctx, db, &o)
		} else {
			err = handle.Put(ctx, values)
		}
		ok(r, err)
		row, err := handle.Get(ctx, values[:3]...)
		if err != nil || !reflect.DeepEqual(row, values) {
			r.Fatalf("values %v, want %v: %v", row, values, err)
		}
		got := trip{User: o.User, At: o.At, Seq: o.Seq}
		if err := trips.Load(ctx, db, &got); err != nil || !sameStruct(got, o, dist) {
			r.Fatalf("Load: %+v, want %+v: %v", got, o, err)
		}
		key := []typed.Predicate[trip]{trips.user.Eq(o.User), trips.at.Eq(o.At),
			trips.seq.Eq(o.Seq)}
		if got, err = trips.Where(key...).First(ctx, db); err != nil || !sameStruct(got, o, dist) {
			r.Fatalf("First: %+v, want %+v: %v", got, o, err)
		}
	})
}

// parcel is a table as it was, newParcel what became of it: a column was renamed, one was
// dropped, and two were added.
type parcel struct {
	ID     int64         `kstone:"id,pk"`
	Name   string        `kstone:"name"`
	Weight float64       `kstone:"weight"`
	From   netip.Addr    `kstone:"from,null"`
	Gone   string        `kstone:"gone"`
	Ref    keycodec.UUID `kstone:"ref"`
}

type newParcel struct {
	ID     int64         `kstone:"id,pk"`
	Note   *string       `kstone:"note"`
	Title  string        `kstone:"title,was(name)"`
	Ref    keycodec.UUID `kstone:"ref"`
	Weight float64       `kstone:"weight"`
	From   netip.Addr    `kstone:"from,null"`
	Count  int64         `kstone:"count,default(7)"`
}

// TestRowsOutliveTheirStruct: rows of a struct are read as those of the struct that came
// after it, before and after they are written again.
func TestRowsOutliveTheirStruct(t *testing.T) {
	weight := func(o *newParcel) *float64 { return &o.Weight }
	testutil.Check(t, func(r *rapid.T) {
		before, after := typed.NewTable[parcel]("parcels"), typed.NewTable[newParcel]("parcels")
		db := openTyped(t, before)
		var want []newParcel
		for id := range rapid.Int64Range(1, 4).Draw(r, "rows") {
			o := parcel{ID: id, Name: rapid.String().Draw(r, "name"), Weight: drawFloat(r),
				From: drawAddr(r), Gone: rapid.String().Draw(r, "gone"),
				Ref: keycodec.UUID(drawBytes(r, 16))}
			ok(r, before.Insert(ctx, db, &o))
			want = append(want, newParcel{ID: id, Title: o.Name, Ref: o.Ref, Weight: o.Weight,
				From: o.From, Count: 7})
		}
		ok(r, typed.Migrate(ctx, db, after))
		for _, w := range want {
			for _, change := range []bool{false, true} {
				if change {
					w.Count, w.Note = w.ID, pointer("changed")
					ok(r, after.Put(ctx, db, &w))
				}
				got := newParcel{ID: w.ID}
				err := after.Load(ctx, db, &got)
				if err != nil || !sameStruct(got, w, weight) {
					r.Fatalf("%+v, want %+v: %v", got, w, err)
				}
			}
		}
	})
}
