package typed_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
)

// moments has times that hold the zero time, those of ns as NULL.
type moments struct {
	At   time.Time  `kstone:"at,pk,us"`
	S    time.Time  `kstone:"s,s"`
	Full time.Time  `kstone:"full,full"`
	Null time.Time  `kstone:"nul,ns,null"`
	Ptr  *time.Time `kstone:"ptr,ms"`
}

// Promise (tables): The zero time.Time is the moment it is, when it is written, read and
// compared with, and NULL under the option null. Where it is out of range, or would make the row
// expire at once, it is an error that names the column.
func TestZeroTimes(t *testing.T) {
	times := typed.NewTable[moments]("moments")
	at := typed.Col(times, func(m *moments) *time.Time { return &m.At })
	s := typed.Col(times, func(m *moments) *time.Time { return &m.S })
	full := typed.Col(times, func(m *moments) *time.Time { return &m.Full })
	null := typed.Col(times, func(m *moments) *time.Time { return &m.Null })
	ptr := typed.Ptr(times, func(m *moments) **time.Time { return &m.Ptr })
	db := openTyped(t, times)
	rows := []moments{{Ptr: new(time.Time)}, {At: day(1), S: day(1), Full: day(1), Null: day(1)}}
	if n, err := times.InsertMany(ctx, db, rows); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	zero := time.Time{}
	got, err := times.Get(ctx, db, at.Eq(zero))
	if err != nil || !got.At.IsZero() || !got.S.IsZero() || !got.Full.IsZero() ||
		!got.Null.IsZero() || got.Ptr == nil || !got.Ptr.IsZero() {
		t.Errorf("read: %+v, %v", got, err)
	}
	year1 := expr.Time(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC))
	handle, err := db.Table("moments")
	ok(t, err)
	stored, err := handle.Get(ctx, year1)
	if err != nil || stored[1] != year1 || stored[2] != year1 || !stored[3].IsNull() ||
		stored[4] != year1 {
		t.Errorf("stored: %v, %v", stored, err)
	}
	for name, c := range map[string]struct {
		where typed.Predicate[moments]
		want  int64
	}{
		"us =": {at.Eq(zero), 1}, "us <": {at.Lt(day(1)), 1}, "us >": {at.Gt(zero), 1},
		"s =": {s.Eq(zero), 1}, "full =": {full.Eq(zero), 1}, "pointer =": {ptr.Eq(zero), 1},
		"null is": {null.IsNull(), 1}, "null =": {null.Eq(zero), 0}, "null <": {null.Lt(day(2)), 1},
		"null >": {null.Gt(zero), 1}, "pointer is": {ptr.IsNull(), 1},
	} {
		if n, err := times.Where(c.where).Count(ctx, db); n != c.want || err != nil {
			t.Errorf("%s: %d rows, want %d: %v", name, n, c.want, err)
		}
	}
	err = times.Set(ctx, db, []typed.Assign[moments]{null.Set(zero), s.Set(zero)}, at.Eq(day(1)))
	got, getErr := times.Get(ctx, db, at.Eq(day(1)))
	if err = errors.Join(err, getErr); err != nil || !got.Null.IsZero() || !got.S.IsZero() {
		t.Errorf("set: %+v, %v", got, err)
	}
	if n, err := times.Where(null.IsNull(), s.Eq(zero)).Count(ctx, db); n != 2 || err != nil {
		t.Errorf("%d rows are NULL: %v", n, err)
	}
}

type session struct {
	ID   int64     `kstone:"id,pk"`
	Seen time.Time `kstone:"seen,ms,ttl(24h)"`
}

// lease may stay for ever.
type lease struct {
	ID   int64     `kstone:"id,pk"`
	Till time.Time `kstone:"till,ms,null,ttl(1ms)"`
}

type tick struct {
	ID int64     `kstone:"id,pk"`
	At time.Time `kstone:"at,ns"`
}

func TestZeroTimesThatAreRefused(t *testing.T) {
	sessions, ticks := typed.NewTable[session]("sessions"), typed.NewTable[tick]("ticks")
	leases := typed.NewTable[lease]("leases")
	id := typed.Col(sessions, func(s *session) *int64 { return &s.ID })
	seen := typed.Col(sessions, func(s *session) *time.Time { return &s.Seen })
	db := openTyped(t, sessions, ticks, leases)
	ok(t, sessions.Insert(ctx, db, &session{1, time.Now()}))
	ok(t, leases.Insert(ctx, db, &lease{ID: 1}))
	if n, err := leases.Where().Count(ctx, db); n != 1 || err != nil {
		t.Errorf("%d leases without an end: %v", n, err)
	}
	never := []typed.Assign[session]{seen.Set(time.Time{})}
	_, where := sessions.UpdateWhere(ctx, db, id.Eq(1), never...)
	for name, err := range map[string]error{
		"Insert":      sessions.Insert(ctx, db, &session{ID: 2}),
		"Put":         sessions.Put(ctx, db, &session{ID: 1}),
		"Set":         sessions.Set(ctx, db, never, id.Eq(1)),
		"UpdateWhere": where,
		"Update": sessions.Update(ctx, db, func(s *session) error {
			s.Seen = time.Time{}
			return nil
		}, id.Eq(1)),
	} {
		if !errors.Is(err, table.ErrInvalid) || !strings.Contains(err.Error(), "column seen") {
			t.Errorf("%s of a row that expires at once: %v", name, err)
		}
	}
	if n, err := sessions.Where().Count(ctx, db); n != 1 || err != nil {
		t.Errorf("%d sessions: %v", n, err)
	}
	err := ticks.Insert(ctx, db, &tick{ID: 1})
	if err == nil || !strings.Contains(err.Error(), `column "at"`) {
		t.Errorf("the zero time in nanoseconds: %v", err)
	}
}
