package engine_test

import (
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// The bytes of a cursor are a format: pages of a web API hold them across releases.
func TestCursorBytes(t *testing.T) {
	q := engine.Query{PK: []byte("user#1"), SK: engine.SKBeginsWith([]byte("post#"))}
	item := engine.Item{Key: engine.Key{PK: []byte("user#1"), SK: []byte("post#7")}}
	const want = "01" + "d9135ce4" + "757365722331" + "0000" + "706f73742337" + "5cde76af"
	page, err := os.ReadFile("../docs/format/cursor.md")
	ok(t, err)
	shown := strings.ReplaceAll(string(page), " ", "")
	if !strings.Contains(shown, want) || !strings.Contains(shown, q.CursorAfter(item).String()) {
		t.Error("docs/format/cursor.md does not show this cursor")
	}
	if got := hex.EncodeToString(q.CursorAfter(item)); got != want {
		t.Fatalf("cursor is %s, want %s", got, want)
	}
	q.Limit, q.After = 5, q.CursorAfter(item) // neither changes what it belongs to
	if got := hex.EncodeToString(q.CursorAfter(item)); got != want {
		t.Fatalf("cursor is %s, want %s", got, want)
	}
}

// Arbitrary text gives a cursor that prints as it was, or an error; arbitrary bytes as
// After never do worse than an error.
func FuzzCursor(f *testing.F) {
	q := engine.Query{PK: []byte("p")}
	f.Add(q.CursorAfter(engine.Item{Key: engine.Key{PK: []byte("p"), SK: []byte("s")}}).String())
	f.Add("AQAAAAAAAAAA")
	f.Add("AX1HGL\r1wAABzIdv7Sw")
	f.Add("AX1HGL1wAABzIdv7Sw\n")
	f.Add("")
	db := openDir(f, "fuzz", &engine.Options{InMemory: true})
	ok(f, db.Put(engine.Key{PK: []byte("p"), SK: []byte("s")}, nil))
	f.Fuzz(func(t *testing.T, text string) {
		defer testutil.Watch(text)()
		c, err := engine.ParseCursor(text)
		if err == nil && c.String() != text {
			t.Fatalf("%q reads as a cursor that prints %q", text, c)
		}
		if err != nil && !errors.Is(err, engine.ErrInvalidCursor) {
			t.Fatal(err)
		}
		q := engine.Query{PK: []byte("p"), After: engine.Cursor(text)}
		for _, err := range db.Query(ctx, q) {
			if err != nil && !errors.Is(err, engine.ErrInvalidCursor) {
				t.Fatal(err)
			}
		}
	})
}
