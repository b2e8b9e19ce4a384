package table_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/keycodec"
	"pgregory.net/rapid"
)

// drawTrip draws a trip whose times are whole milliseconds.
func drawTrip(r *rapid.T) trip {
	text := rapid.StringN(0, 8, 40)
	o := trip{User: text.Draw(r, "user"), Seq: rapid.Int64().Draw(r, "seq"),
		At:     time.UnixMilli(rapid.Int64Range(-1e14, 1e14).Draw(r, "at")).UTC(),
		Price:  keycodec.NewDecimal(rapid.Int64().Draw(r, "price"), 2),
		Cents:  rapid.Int64().Draw(r, "cents"),
		Status: text.Draw(r, "status"), City: text.Draw(r, "city"),
		Tags: rapid.SliceOfN(text, 0, 3).Draw(r, "tags"),
		Dist: rapid.Float64().Draw(r, "dist"), Seats: rapid.Uint8().Draw(r, "seats"),
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
		if err != nil {
			r.Fatal(err)
		}
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
func TestTypedIsUntyped(t *testing.T) {
	trips := newTrips("trips")
	db := openTyped(t, trips)
	handle, err := db.Table("trips")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(r *rapid.T) {
		o := drawTrip(r)
		values := valuesOf(r, &o)
		if rapid.Bool().Draw(r, "typed") {
			err = trips.Put(ctx, db, &o)
		} else {
			err = handle.Put(ctx, values)
		}
		if err != nil {
			r.Fatal(err)
		}
		row, err := handle.Get(ctx, values[:3]...)
		if err != nil || !reflect.DeepEqual(row, values) {
			r.Fatalf("values %v, want %v: %v", row, values, err)
		}
		got := trip{User: o.User, At: o.At, Seq: o.Seq}
		if err := trips.Load(ctx, db, &got); err != nil || !reflect.DeepEqual(got, o) {
			r.Fatalf("Load: %+v, want %+v: %v", got, o, err)
		}
		key := []table.Predicate[trip]{trips.user.Eq(o.User), trips.at.Eq(o.At),
			trips.seq.Eq(o.Seq)}
		if got, err = trips.Where(key...).First(ctx, db); err != nil || !reflect.DeepEqual(got, o) {
			r.Fatalf("First: %+v, want %+v: %v", got, o, err)
		}
	})
}
