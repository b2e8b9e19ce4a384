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
