package engine_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/keycodec"
)

// position is a query, a scan or a gathering that makes cursors and takes them.
type position struct {
	name  string
	after func(engine.Item) engine.Cursor
	take  func(db *engine.DB, c engine.Cursor) error
}

func queryPosition(name string, q engine.Query) position {
	q.PK = []byte("p" + strings.Repeat("q", strings.Count(name, "other")))
	return position{name, q.CursorAfter, func(db *engine.DB, c engine.Cursor) error {
		q.After = c
		return lastOf(db.Query(ctx, q))
	}}
}

func scanPosition(name string, s engine.Scan) position {
	return position{name, s.CursorAfter, func(db *engine.DB, c engine.Cursor) error {
		s.After = c
		return lastOf(db.Scan(ctx, s))
	}}
}

func gatherPosition(name string, g engine.Gather) position {
	return position{name, g.CursorAfter, func(db *engine.DB, c engine.Cursor) error {
		g.After = c
		return lastOf(db.Gather(ctx, g))
	}}
}

// positions differ from each other in one thing.
func positions() []position {
	a, b := []byte("a"), []byte("b")
	pks := func(s ...string) (all [][]byte) {
		for _, p := range s {
			all = append(all, []byte(p))
		}
		return all
	}
	spans := func(s ...keycodec.Span) []keycodec.Span { return s }
	return []position{
		queryPosition("query", engine.Query{}),
		queryPosition("query of other", engine.Query{}),
		queryPosition("query backward", engine.Query{Reverse: true}),
		queryPosition("equal", engine.Query{SK: engine.SKEqual(a)}),
		queryPosition("less", engine.Query{SK: engine.SKLess(a)}),
		queryPosition("less equal", engine.Query{SK: engine.SKLessEqual(a)}),
		queryPosition("greater", engine.Query{SK: engine.SKGreater(a)}),
		queryPosition("greater equal", engine.Query{SK: engine.SKGreaterEqual(a)}),
		queryPosition("begins", engine.Query{SK: engine.SKBeginsWith(a)}),
		queryPosition("between", engine.Query{SK: engine.SKBetween(a, b)}),
		queryPosition("between more", engine.Query{SK: engine.SKBetween(a, []byte("bb"))}),
		queryPosition("range", engine.Query{SK: engine.SKRange(a, b)}),
		queryPosition("range to nothing", engine.Query{SK: engine.SKRange(a, []byte{})}),
		queryPosition("range to the end", engine.Query{SK: engine.SKRange(a, nil)}),
		scanPosition("scan", engine.Scan{}),
		scanPosition("unordered", engine.Scan{Unordered: true}),
		scanPosition("scan backward", engine.Scan{Reverse: true}),
		scanPosition("segment 0 of 3", engine.Scan{Segments: 3}),
		scanPosition("segment 1 of 3", engine.Scan{Segment: 1, Segments: 3}),
		scanPosition("segment 1 of 2", engine.Scan{Segment: 1, Segments: 2}),
		scanPosition("from a", engine.Scan{From: engine.Key{PK: a}}),
		scanPosition("to a", engine.Scan{To: engine.Key{PK: a}}),
		scanPosition("to b", engine.Scan{To: engine.Key{PK: b}}),
		scanPosition("from a to b", engine.Scan{From: engine.Key{PK: a}, To: engine.Key{PK: b}}),
		scanPosition("from a to nothing", engine.Scan{
			From: engine.Key{PK: a}, To: engine.Key{PK: []byte{}}}),
		gatherPosition("gather", engine.Gather{PKs: pks("p", "q")}),
		gatherPosition("gather other", engine.Gather{PKs: pks("p", "r")}),
		gatherPosition("gather more", engine.Gather{PKs: pks("p", "q", "r")}),
		gatherPosition("by partition", engine.Gather{PKs: pks("p", "q"), ByPartition: true}),
		gatherPosition("gather backward", engine.Gather{PKs: pks("p", "q"), Reverse: true}),
		gatherPosition("spans", engine.Gather{PKs: pks("p", "q"),
			Spans: spans(keycodec.Span{Start: a, End: b})}),
		gatherPosition("spans from b", engine.Gather{PKs: pks("p", "q"),
			Spans: spans(keycodec.Span{Start: b})}),
		gatherPosition("spans from b to nothing", engine.Gather{PKs: pks("p", "q"),
			Spans: spans(keycodec.Span{Start: b, End: []byte{}})}),
		gatherPosition("two spans", engine.Gather{PKs: pks("p", "q"),
			Spans: spans(keycodec.Span{Start: a, End: b}, keycodec.Span{Start: b})}),
		gatherPosition("spans of each", engine.Gather{PKs: pks("p", "q"),
			Each: [][]keycodec.Span{{{Start: a, End: b}}, {}}}),
		gatherPosition("spans of the other", engine.Gather{PKs: pks("p", "q"),
			Each: [][]keycodec.Span{{}, {{Start: a, End: b}}}}),
	}
}

// TestCursorsBelongToOneQuery: a cursor is taken by what has made it, and by nothing that would
// read anything else. Its bytes are a format, see TestCursorBytes.
func TestCursorsBelongToOneQuery(t *testing.T) {
	db := openMemory(t, engine.Options{})
	all := positions()
	item := engine.Item{Key: pksk("p", "a")}
	for _, from := range all {
		c := from.after(item)
		for _, to := range all {
			err := to.take(db, c)
			if same := from.name == to.name; same && err != nil ||
				!same && !errors.Is(err, engine.ErrInvalidCursor) {
				t.Errorf("cursor of %s, taken by %s: %v", from.name, to.name, err)
			}
		}
	}
	var got strings.Builder
	for _, p := range all {
		fmt.Fprintf(&got, "%s: %s\n", p.name, hex.EncodeToString(p.after(item)[1:5]))
	}
	if got.String() != cursorFingerprints {
		t.Errorf("fingerprints are\n%s", &got)
	}
}

const cursorFingerprints = `query: 7d4718bd
query of other: 7c167f51
query backward: 8f2c9bbe
equal: 41a7ef54
less: 37546345
less equal: 1afae74a
greater: dab37b67
greater equal: f71dff68
begins: ac40f776
between: 46c48d14
between more: efc56d4c
range: 635d968a
range to nothing: b1a6f57e
range to the end: 45982336
scan: aab15d16
unordered: 8485968b
scan backward: 58dade15
segment 0 of 3: b31e513f
segment 1 of 3: ecfa8d60
segment 1 of 2: 18c45b28
from a: c02d0fb4
to a: b840bd0f
to b: ab104efb
from a to b: 7f3b9bcf
from a to nothing: 3413d9fc
gather: fb7832f4
gather other: 1b555615
gather more: 5f1e479e
by partition: c2500872
gather backward: 69231965
spans: bf37a6d6
spans from b: af2f2d86
spans from b to nothing: 5b11fbce
two spans: 722d1955
spans of each: 053aed47
spans of the other: 15c57984
`

// TestCursorsOfOtherLengths: a cursor is at least its frame and a key; what is shorter, longer or
// changed anywhere is refused, when it is parsed and when it is taken.
func TestCursorsOfOtherLengths(t *testing.T) {
	db := openMemory(t, engine.Options{})
	q := engine.Query{PK: []byte("p")}
	whole := q.CursorAfter(engine.Item{Key: pk("p")})
	refused := func(c engine.Cursor) {
		t.Helper()
		wantIs(t, second(engine.ParseCursor(c.String())), engine.ErrInvalidCursor)
		q.After = c
		wantIs(t, second(db.Count(ctx, q)), engine.ErrInvalidCursor)
	}
	refused(append(engine.Cursor{}, append(whole, 0)...))
	for n := range whole {
		changed := append(engine.Cursor{}, whole...)
		changed[n] ^= 1
		refused(changed)
		c := whole[:n]
		if n == 0 {
			continue // no cursor: the beginning
		}
		refused(c)
		err := second(engine.ParseCursor(c.String()))
		if short := strings.Contains(err.Error(), "too short"); short != (n < 9) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	got, err := engine.ParseCursor(whole.String())
	if err != nil || string(got) != string(whole) {
		t.Errorf("%x, %v", got, err)
	}
	for text, at := range map[string]string{"\nAQ": "byte 0", "A\rQ": "byte 1", "AQ\n": "byte 2"} {
		_, err := engine.ParseCursor(text)
		if !errors.Is(err, engine.ErrInvalidCursor) || !strings.Contains(err.Error(), at) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
