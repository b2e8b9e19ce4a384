package read

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

var ok, wantIs = testutil.OK, testutil.WantIs

// imageSpan is the span that most of these tests scan.
var imageSpan = base.Span{Lo: ordered("b"), Hi: ordered("c")}

// longStart is longer than what is compared fast.
const longStart = "the same beginning "

// walked returns what a walk over a span shows, in blocks or one by one, in the order of the keys.
func walked(t *testing.T, r Reader, s base.Span, blocks bool) (items []string) {
	t.Helper()
	return walkedSince(t, r, s, blocks, 0)
}

// walkedSince is walked without lower versions.
func walkedSince(
	t *testing.T, r Reader, s base.Span, blocks bool, from base.SeqNum,
) (items []string) {
	t.Helper()
	it := begun(t, r, 0)
	defer it.Close()
	it.Since(from)
	it.Stripes(everyStripe, s)
	it.Walk(s, false)
	if !blocks {
		return shown(t, it)
	}
	var all kv.Block
	for b := new(Block); it.Block(b); {
		if b.Plain != nil {
			kv.SetEntries(&all, b.Plain, nil, 0, 0)
		} else {
			kv.SetRows(&all, b.Rows, nil, 0, 0)
		}
		n := 0
		for i := range all.Len() {
			item, err := all.Item(i)
			ok(t, err)
			n += all.KeyBytes(i) + len(item.Value)
			items = append(items, fmt.Sprintf("%s %s %d", item.Key.PK, item.Value, item.Version))
		}
		if n != all.Bytes() {
			t.Fatalf("%d bytes, want %d", all.Bytes(), n)
		}
	}
	ok(t, it.Err())
	slices.Sort(items)
	return items
}

// shown returns what an iteration shows, in the order of the keys.
func shown(t *testing.T, it *Iteration) (items []string) {
	t.Helper()
	for it.Next() {
		items = append(items, fmt.Sprintf("%s %s %d", it.Item.Key.PK, it.Item.Value,
			it.Item.Version))
	}
	ok(t, it.Err())
	slices.Sort(items)
	return items
}

// merged returns what readings of a span in one stripe after the other show, for which there is no
// image, in the order of the keys.
func merged(t *testing.T, r Reader, s base.Span, from base.SeqNum) (items []string) {
	t.Helper()
	for i := range everyStripe {
		it := begun(t, r, 0)
		it.Since(from)
		it.Stripes(everyStripe[i:i+1], s)
		it.Read(s, false)
		items = append(items, shown(t, it)...)
		it.Close()
	}
	slices.Sort(items)
	return items
}

// checkOrder compares an ordered reading of a span, with a limit or 0, with what is there, and
// reports whether it came out of an image.
func checkOrder(t *testing.T, r Reader, s base.Span, reverse bool, limit int, want []string) bool {
	t.Helper()
	if reverse {
		want = slices.Clone(want)
		slices.Reverse(want)
	}
	if limit > 0 {
		want = want[:min(limit, len(want))]
	}
	it := begun(t, r, limit)
	defer it.Close()
	it.Stripes(everyStripe, s)
	it.Read(s, reverse)
	var got []string
	for it.Next() {
		got = append(got, fmt.Sprintf("%s %s %d", it.Item.Key.PK, it.Item.Value, it.Item.Version))
		if it.Tally() {
			break
		}
	}
	ok(t, it.Err())
	if !slices.Equal(got, want) {
		t.Fatalf("%q, reverse %v, limit %d: got %q, want %q", s, reverse, limit, got, want)
	}
	return it.image.sorted != nil
}

// deleteRange commits the removal of a span from some stripes.
func (w *world) deleteRange(s base.Span, ids ...uint8) {
	seq, err := w.log.Append([]byte("some record"))
	w.ok(err)
	w.TouchSpan(s, seq)
	for _, id := range ids {
		w.stripes[id].DeleteRange(base.RangeTombstone{Start: s.Lo, End: s.Hi, Seq: seq})
	}
	w.Publish(seq)
}

// imageUsesOf returns how often the present image of a span was read.
func (w *world) imageUsesOf(s base.Span) int64 {
	if f := w.snaps.gen.facts.of(s); f != nil {
		if m := f.watch.Load(); m != nil {
			return m.uses.Load()
		}
	}
	return 0
}

// Walks over a span that is walked over again and again show what an ordered reading does, whatever
// writes, deletes, expires and is flushed between them, at the present, at moments before, and in
// transactions.
//
// Promise (reads and writes): A scan of a small span that was scanned before, whose rows may come
// out of an image, shows what is there at its moment. Also `TestImagesBesideWriters`,
// `TestImagesWaitForCommits`, `TestImagesOfAnotherProcess`; `TestReadersAgreeBesideWriters`
// and `TestImagesEndWithEachWrite` in `engine`.
func TestImagesShowWhatIsThere(t *testing.T) {
	w := newWorld(t)
	rnd := testutil.Rand(t)
	spans := []base.Span{imageSpan, {Lo: ordered("a")}, {Lo: ordered("b3"), Hi: ordered("b6")},
		{Lo: ordered(longStart + "2"), Hi: ordered(longStart + "8")}}
	at, runs, uses, sorted := new(Moment), uint64(1), int64(0), 0
	w.ok(at.Take(w.State))
	for range testutil.Effort(120, 10_000) {
		for range rnd.IntN(4) {
			w.writeForImages(rnd)
		}
		switch rnd.IntN(6) {
		case 0:
			w.now.Add(rnd.Int64N(3))
		case 1:
			at.Release()
			at = new(Moment)
			w.ok(at.Take(w.State))
		case 2, 3:
			w.flushStripe(uint8(rnd.IntN(base.NumStripes)), &runs)
		}
		for range rnd.IntN(10) {
			s := spans[rnd.IntN(len(spans))]
			check := func(r Reader) {
				t.Helper()
				from := base.SeqNum(max(0, rnd.IntN(8)-6) * 40)
				want := merged(t, r, s, from)
				got := walkedSince(t, r, s, rnd.IntN(2) == 0, from)
				if !slices.Equal(got, want) {
					t.Fatalf("%q: got %q, want %q", s, got, want)
				}
				reverse, limit := rnd.IntN(2) == 0, rnd.IntN(3)*rnd.IntN(9)
				if from == 0 && checkOrder(t, r, s, reverse, limit, want) {
					sorted++
				}
			}
			check(w.Reader(nil, nil))
			uses = max(uses, w.imageUsesOf(s))
			check(w.Reader(at, nil))
			if rnd.IntN(4) == 0 {
				w.inTransaction("bx", check)
			}
		}
	}
	at.Release()
	if uses < imageUses || sorted == 0 {
		t.Errorf("images were read %d times, %d times in order", uses, sorted)
	}
}

// writeForImages commits something that is mostly about what spans of images have.
func (w *world) writeForImages(rnd *rand.Rand) {
	pk := fmt.Sprintf("%s%02d", []string{"a", "b", "c", longStart}[rnd.IntN(4)], rnd.IntN(100))
	e := base.Entry{Key: ordered(pk), Kind: base.KindPut, Value: fmt.Append(nil, rnd.IntN(1000))}
	switch rnd.IntN(16) {
	case 0, 1:
		e.Kind, e.Value = base.KindDelete, nil
	case 2:
		if rnd.IntN(8) == 0 {
			e.Kind, e.Expiry = base.KindPutTTL, w.now.Load()+1+rnd.Int64N(5)
		}
	case 3:
		w.deleteRange(base.Span{Lo: e.Key, Hi: ordered(pk + "z")}, keycodec.Stripe([]byte(pk)))
		return
	}
	w.Publish(w.write(e))
}

// An image has each commit that readers at its seq or above see, also one that has its number when
// the span begins to be watched.
func TestImagesWaitForCommits(t *testing.T) {
	w := newWorld(t)
	w.put("b1", "v")
	var before Moment
	w.ok(before.Take(w.State))
	defer before.Release()
	old := w.Reader(&before, nil)
	walked(t, old, imageSpan, true)
	e := base.Entry{Key: ordered("b2"), Kind: base.KindPut, Value: []byte("v")}
	seq, err := w.log.Append([]byte("some record"))
	w.ok(err)
	e.Seq = seq
	w.TouchKey(keycodec.Stripe([]byte("b2")), e.Key, false, seq) // nothing is watched
	walked(t, old, imageSpan, true)                              // begins to watch
	walked(t, old, imageSpan, true)                              // may not make the image
	w.stripes[keycodec.Stripe([]byte("b2"))].Put(&e, w.Hash(e.Key), 0)
	w.Publish(seq)
	for range 4 {
		if got := walked(t, w.Reader(nil, nil), imageSpan, true); len(got) != 2 {
			t.Fatalf("now: got %q", got)
		}
		if got := walked(t, old, imageSpan, true); len(got) != 1 {
			t.Fatalf("before: got %q", got)
		}
	}
	if w.imageUsesOf(imageSpan) == 0 {
		t.Error("there is no image")
	}
}

// An image that is made while a commit comes is not for readers before that.
func TestImagesMadeBesideCommits(t *testing.T) {
	w := newWorld(t)
	w.put("b1", "v")
	for range 2 {
		walked(t, w.Reader(nil, nil), imageSpan, true)
	}
	it := begun(t, w.Reader(nil, nil), 0)
	defer it.Close()
	it.Stripes(everyStripe, imageSpan)
	w.put("b2", "v")
	it.Walk(imageSpan, false)
	if got := shown(t, it); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

// Iterations that share the stripes of a span, with and without an image, show each item once.
func TestImagesAreShared(t *testing.T) {
	w := newWorld(t)
	rnd := testutil.Rand(t)
	for i := range 5 * imageRows {
		w.put(fmt.Sprintf("b%d", i), "v")
	}
	for range 4 {
		walked(t, w.Reader(nil, nil), imageSpan, true)
	}
	var at Moment
	w.ok(at.Take(w.State))
	defer at.Release()
	want := merged(t, w.Reader(&at, nil), imageSpan, 0)
	for range 20 {
		var its []*Iteration
		var share kv.Share
		for range 4 {
			it := begun(t, w.Reader(&at, nil), 0)
			it.Stripes(everyStripe, imageSpan)
			if rnd.IntN(3) == 0 {
				it.known = nil
			}
			it.WalkShared(&share, false)
			its = append(its, it)
		}
		var got []string
		for len(its) > 0 {
			i := rnd.IntN(len(its))
			it, b := its[i], Block{}
			if !it.Block(&b) {
				w.ok(it.Err())
				it.Close()
				its = slices.Delete(its, i, i+1)
				continue
			}
			var all kv.Block
			if kv.SetRows(&all, b.Rows, nil, 0, 0); b.Plain != nil {
				kv.SetEntries(&all, b.Plain, nil, 0, 0)
			}
			for i := range all.Len() {
				item, err := all.Item(i)
				w.ok(err)
				if keycodec.Stripe(item.Key.PK) < it.Stripe() {
					t.Fatalf("%s is not of stripe %d", item.Key.PK, it.Stripe())
				}
				got = append(got, fmt.Sprintf("%s %s %d", item.Key.PK, item.Value, item.Version))
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Fatalf("%d items are shown, want %d", len(got), len(want))
		}
	}
}

// Walks beside a writer have all that was acknowledged before, and nothing that began after them.
func TestImagesBesideWriters(t *testing.T) {
	w := newWorld(t)
	var begun, done, scans atomic.Int64
	var writing sync.WaitGroup
	var stop atomic.Bool
	defer writing.Wait()
	defer stop.Store(true)
	rnd := testutil.Rand(t)
	pauses := rand.New(rand.NewPCG(rnd.Uint64(), 0))
	writing.Go(func() {
		for i := 0; !stop.Load(); i++ {
			for until := scans.Load() + pauses.Int64N(12); scans.Load() < until && !stop.Load(); {
				runtime.Gosched()
			}
			if i%3 == 0 {
				w.put(fmt.Sprintf("a%06d", i), "v")
			}
			begun.Add(1)
			w.put(fmt.Sprintf("b%06d", i), "v")
			done.Add(1)
		}
	})
	uses := int64(0)
	for range max(200, testutil.Effort(2000, 100_000)) {
		least := done.Load()
		n := int64(len(walked(t, w.Reader(nil, nil), imageSpan, rnd.IntN(2) == 0)))
		if most := begun.Load(); n < least || n > most {
			t.Fatalf("%d are shown, want %d to %d", n, least, most)
		}
		uses = max(uses, w.imageUsesOf(imageSpan))
		scans.Add(1)
	}
	if uses == 0 {
		t.Error("images were never read")
	}
}

// A reader of what another process writes, whose commits touch nothing, sees each of them.
func TestImagesOfAnotherProcess(t *testing.T) {
	w := newWorld(t)
	reads := New(Env{Stripes: &w.stripes, Follows: true, ImageBytes: 1 << 20, NowMs: w.now.Load})
	uses := int64(0)
	for i := range 20 {
		reads.Reset(w.put(fmt.Sprintf("b%d", i), "v"))
		for range i {
			got := walked(t, reads.Reader(nil, nil), imageSpan, true)
			if len(got) != i+1 {
				t.Fatalf("got %q, want %d", got, i+1)
			}
		}
		if f := reads.snaps.gen.facts.of(imageSpan); f != nil && f.watch.Load() != nil {
			uses += f.watch.Load().uses.Load()
		}
	}
	if uses == 0 {
		t.Error("images were never read")
	}
}

// Images have no more memory than is theirs, give way to those of other spans, and go when nothing
// is scanned any more; what is too large or expires has none.
func TestImagesAreBounded(t *testing.T) {
	w := newWorld(t)
	w.State.env.ImageBytes = 6 << 10
	for i := range 64 {
		w.put(fmt.Sprintf("b%02d", i), string(bytes.Repeat([]byte("v"), 50)))
		w.put(fmt.Sprintf("c%02d", i), string(bytes.Repeat([]byte("v"), 500)))
	}
	w.Publish(w.write(base.Entry{Key: ordered("d1"), Kind: base.KindPutTTL, Expiry: 1 << 40}))
	images := func() (n, sum int) {
		for _, e := range w.State.images.load() {
			if m := e.of.image.Load(); m != nil {
				n, sum = n+1, sum+m.bytes()
			}
		}
		return n, sum
	}
	scan := func(s base.Span, image bool) {
		t.Helper()
		for range 200 {
			w.now.Add(1)
			walked(t, w.Reader(nil, nil), s, true)
			n, sum := images()
			if len(w.State.images.load()) > maxWatched || sum > w.State.env.ImageBytes {
				t.Fatalf("%d images have %d bytes", n, sum)
			}
		}
		got := w.snaps.gen.facts.of(s).watch.Load().image.Load() != nil
		if got != image {
			t.Errorf("%q has an image: %v", s, got)
		}
	}
	last := base.Span{Lo: ordered("b00"), Hi: ordered("bz")}
	for i := range 2 * maxWatched {
		last.Lo = ordered(fmt.Sprintf("b%02d", 2*i))
		scan(last, true)
	}
	scan(base.Span{Lo: ordered("c"), Hi: ordered("d")}, false)
	scan(base.Span{Lo: ordered("d"), Hi: ordered("e")}, false)
	scan(last, true)
	w.now.Add(slotIdleMs)
	w.Retention()
	if n, _ := images(); n == 0 {
		t.Error("images of spans that were just scanned went")
	}
	w.now.Add(slotIdleMs + 1)
	w.Retention()
	if w.State.images.load() != nil {
		t.Error("spans that are not scanned are watched")
	}
	scan(last, true)
}

// An image of several blocks is read as a whole, but not of a closed database, nor by a scan whose
// context has ended.
func TestImagesAreReadUntilTheEnd(t *testing.T) {
	w := newWorld(t)
	for i := range 5 * imageRows {
		w.put(fmt.Sprintf("b%d", i), "v")
	}
	for i := range 6 {
		want := merged(t, w.Reader(nil, nil), imageSpan, 0)
		if got := walked(t, w.Reader(nil, nil), imageSpan, i%2 == 0); !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	for i := range 4 {
		with, end := context.WithCancel(ctx)
		it := NewIteration()
		w.ok(it.Start(with, w.Reader(nil, nil), 0))
		it.Stripes(everyStripe, imageSpan)
		if it.Walk(imageSpan, false); it.image.of == nil {
			t.Error("there is no image")
		}
		step := func() bool { return i%2 == 0 && it.Block(new(Block)) || i%2 == 1 && it.Next() }
		if !step() {
			t.Error("nothing is shown")
		}
		w.State.closed.Store(i < 2)
		end()
		n := 0
		for step() {
			n++
		}
		if want := []error{ErrClosed, context.Canceled}[i/2]; it.Err() != want || n >= 2*imageRows {
			t.Errorf("after %d steps: %v, want %v", n, it.Err(), want)
		}
		w.State.closed.Store(false)
		it.Close()
	}
}
