package cursor_test

import (
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
)

// A batch that is released refers to no row any more, and keeps its memory.
func TestReleasedBatchesAreEmpty(t *testing.T) {
	var b cursor.Batch
	for n := range 12 {
		b.Room(n)
		for range n {
			b.Add(&base.Entry{Key: []byte("key"), Value: []byte("value")})
		}
		b.Cut(n / 2)
		if n%3 == 0 {
			b.Reset()
			b.Keep(&base.Entry{Key: []byte("other")})
		}
		b.Release(100)
		rows := b.Rows[:cap(b.Rows)]
		if len(b.Rows) != 0 || len(rows) < n {
			t.Fatalf("%d rows, room for %d of %d", len(b.Rows), len(rows), n)
		}
		for i := range rows {
			if rows[i].Key != nil || rows[i].Value != nil {
				t.Fatalf("with %d rows, number %d is kept", n, i)
			}
		}
	}
	b.Room(50)
	if b.Release(10); cap(b.Rows) != 0 {
		t.Errorf("a large batch keeps room for %d rows", cap(b.Rows))
	}
}

// Keys get a prefix, whatever the lengths of both; those of rows before stay as they are.
func TestPrefix(t *testing.T) {
	text := []byte("0123456789abcdefghijklmnopqrstuvwxyzABCD")
	for prefix := range 20 {
		var b cursor.Batch
		b.Add(&base.Entry{Key: []byte("before")})
		for suffix := range 20 {
			b.Keep(&base.Entry{Key: text[prefix : prefix+suffix : prefix+suffix]})
		}
		b.Prefix(1, text[:prefix])
		for i, r := range b.Rows {
			want := "before"
			if i > 0 {
				want = string(text[:prefix+i-1])
			}
			if string(r.Key) != want || cap(r.Key) != len(r.Key) {
				t.Errorf("row %d after a prefix of %d bytes: %q, want %q", i, prefix, r.Key, want)
			}
		}
	}
}
