package stripe_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/stripe"
)

// spanList are ranges of keys in the direction of reading; "" as an end is no bound.
type spanList [][2]string

func (s spanList) Len() int { return len(s) }

func (s spanList) Span(i int, buf []byte) (lo, hi, keys []byte) {
	keys = append(buf, s[i][0]...)
	n := len(keys)
	if s[i][1] != "" {
		keys = append(keys, s[i][1]...)
		hi = keys[n:]
	}
	return keys[:n:n], hi, keys
}

// anySpans draws ranges between the keys 0 and n; some are empty.
func anySpans(rng *rand.Rand, n int, reverse bool) spanList {
	var spans spanList
	for at := rng.IntN(n); at < n && len(spans) < 6; at += rng.IntN(n / 3) {
		to := at + rng.IntN(n/3)
		spans = append(spans, [2]string{fmt.Sprintf("k%03d", at), fmt.Sprintf("k%03d", to)})
		at = to
	}
	if len(spans) == 0 {
		return spanList{{"k", ""}}
	}
	if reverse {
		slices.Reverse(spans)
	} else if last := &spans[len(spans)-1]; rng.IntN(3) == 0 {
		last[1] = ""
	}
	return spans
}

// TestSpans: a cursor over ranges shows the rows of each of them, whatever is added to it and
// however it reads.
func TestSpans(t *testing.T) {
	rng := testutil.Rand(t)
	for range 20 {
		w := newWorld(t, vfs.NewMem())
		w.env.FileBytes = int64(1 + rng.IntN(3000))
		for range 1 + rng.IntN(4) {
			for range rng.IntN(150) {
				w.commit(put(fmt.Sprintf("k%03d", rng.IntN(120)), noise(rng.IntN(50))))
			}
			if rng.IntN(2) == 0 {
				lo := rng.IntN(100)
				hi := lo + 1 + rng.IntN(40)
				w.commit(delRange(fmt.Sprintf("k%03d", lo), fmt.Sprintf("k%03d", hi)))
			}
			if rng.IntN(3) > 0 {
				w.flush()
			}
		}
		var c stepper
		for range 20 {
			reverse := rng.IntN(2) == 0
			b := bounds(fmt.Sprintf("k%03d", rng.IntN(60)), "k100", w.seq, reverse)
			ok(t, c.Open(w.s, b)) // what a cursor leaves in the middle does not matter
			for range rng.IntN(20) {
				c.Next()
			}
			c.Close()
			b = bounds("", "", w.seq, reverse)
			b.Lazy, b.Eager, b.FirstRows = rng.IntN(2) == 0, rng.IntN(2) == 0, rng.IntN(5)
			spans := anySpans(rng, 120, reverse)
			if b.Spans = spans; len(spans) == 1 {
				b.Lo = []byte(spans[0][0])
				if b.Hi = nil; spans[0][1] != "" {
					b.Hi = []byte(spans[0][1])
				}
			}
			var want []string
			for _, s := range spans {
				if s[1] == "" || s[0] < s[1] {
					want = append(want, w.model.rows(s[0], s[1], w.seq, reverse)...)
				}
			}
			ok(t, c.Open(w.s, b))
			got, err := rest(&c)
			ok(t, err)
			if c.Close(); !slices.Equal(got, want) {
				t.Fatalf("spans %q, reverse %v:\n got %q\nwant %q", spans, reverse, got, want)
			}
		}
		w.s.Close()
	}
}

// Ranges that are not reached are not read, unless the first is wanted at once.
func TestSpansAreReadWhenTheyAreReached(t *testing.T) {
	for _, eager := range []bool{false, true} {
		w := newWorld(t, vfs.NewMem())
		w.fill(300, "one")
		w.fill(300, "two")
		b := bounds("", "", w.seq, false)
		b.Eager = eager
		b.Spans = spanList{{"k0010", "k0012"}, {"k0100", "k0102"}, {"k0250", "k0252"}}
		var c stripe.Cursor
		var reads []uint64
		ok(t, c.Add(w.s, &b, nil))
		for more := true; more; {
			reads = append(reads, w.blockReads(func() { more = len(c.Rows()) > 0 }))
		}
		c.Close()
		want := []uint64{1, 1, 3, 1, 1, 1, 0} // a row of the other source after the first
		if eager {
			want[0], want[1] = 2, 0
		}
		if !slices.Equal(reads, want) {
			t.Errorf("eager %v: blocks are read %d, want %d", eager, reads, want)
		}
	}
}

// A cursor over several stripes shows its rows in the order of what follows the skipped bytes
// of their keys, then of the parts.
func TestPartsOfACursor(t *testing.T) {
	var worlds []*world
	var want []string
	for i := range 3 {
		w := newWorld(t, vfs.NewMem())
		for j := range 20 {
			w.commit(put(fmt.Sprintf("%c%02d", 'a'+i, (j+i)/2*2), "v"))
		}
		if i < 2 {
			w.flush()
		}
		worlds = append(worlds, w)
	}
	for _, reverse := range []bool{false, true} {
		var c stripe.Cursor
		want = want[:0]
		for i, w := range worlds {
			b := bounds("", "", w.seq, reverse)
			b.Part, b.Skip = int32(i), 1
			ok(t, c.Add(w.s, &b, nil))
			for k := range w.model.versions {
				want = append(want, fmt.Sprintf("%s part %d", k[1:], i))
			}
		}
		slices.Sort(want)
		if reverse {
			slices.Reverse(want)
		}
		var got []string
		for rows := c.Rows(); len(rows) > 0; rows = c.Rows() {
			for i := range rows {
				got = append(got, fmt.Sprintf("%s part %d", rows[i].Key[1:], c.Part()))
			}
		}
		ok(t, c.Err())
		c.Close()
		if !slices.Equal(got, want) {
			t.Errorf("reverse %v:\n got %q\nwant %q", reverse, got, want)
		}
	}
	var c stripe.Cursor
	b := bounds("", "", worlds[0].seq, false)
	ok(t, c.Add(worlds[0].s, &b, nil))
	worlds[1].s.Close()
	if err := c.Add(worlds[1].s, &b, nil); !errors.Is(err, stripe.ErrClosed) {
		t.Errorf("a closed stripe is added: %v", err)
	}
	if rows := c.Rows(); len(rows) > 0 || !errors.Is(c.Err(), stripe.ErrClosed) {
		t.Errorf("%d rows after an error, %v", len(rows), c.Err())
	}
	c.Close()
	c.Close()
	ok(t, c.Add(worlds[0].s, &b, nil))
	if rows := c.Rows(); len(rows) == 0 || c.Err() != nil {
		t.Errorf("%d rows, %v of a cursor that is used again", len(rows), c.Err())
	}
	c.Close()
}

// A context that ends stops the reading before the next batch, from files and from memory.
func TestContextOfACursor(t *testing.T) {
	cause := errors.New("enough")
	for _, inTable := range []bool{false, true} {
		for after := range 3 {
			for _, lo := range []string{"", "k0003"} {
				w := newWorld(t, vfs.NewMem())
				for i := range 100 {
					w.commit(put(fmt.Sprintf("k%04d", i), "v"))
				}
				if !inTable {
					w.flush()
					w.fill(100, "two")
				}
				ends, end := context.WithCancelCause(ctx)
				b := bounds(lo, "", w.seq, false)
				b.Ctx = ends
				var c stripe.Cursor
				ok(t, c.Add(w.s, &b, nil))
				for range after {
					if len(c.Rows()) == 0 {
						t.Fatal("no rows")
					}
				}
				end(cause)
				rows := 0 // of what was read before
				for n := 1; n > 0 && after > 0; rows += n {
					n = len(c.Rows())
				}
				if n := len(c.Rows()); n > 0 || rows > 10 || !errors.Is(c.Err(), cause) {
					t.Errorf("in a memtable %v, after %d batches: %d rows, %v", inTable, after,
						rows+n, c.Err())
				}
				c.Close()
				b.Ctx = nil
				ok(t, c.Add(w.s, &b, nil))
				if rows := c.Rows(); len(rows) == 0 || c.Err() != nil {
					t.Errorf("%d rows without a context: %v", len(rows), c.Err())
				}
				c.Close()
			}
		}
	}
}

// eachReadFails runs read with each of its accesses to files failing: the error must be that
// of the access. Nothing is loaded at first.
func eachReadFails(t *testing.T, what string, read func(w *world) error) {
	t.Helper()
	for at := int64(1); ; at++ {
		w := newFaulty(t)
		p := &vfstest.FailPlan{At: at, Err: vfs.ErrNoSpace, Match: func(op vfstest.Op) bool {
			return op.Kind == vfstest.OpReadAt || op.Kind == vfstest.OpOpen
		}}
		w.set(p.Hook)
		err := read(w.world)
		w.set(nil)
		op, failed := p.Failed()
		if failed != errors.Is(err, vfs.ErrNoSpace) || !failed && err != nil {
			t.Fatalf("%s, access %d, %v of %s: %v", what, at, op.Kind, op.Name, err)
		}
		if ok(t, read(w.world)); !failed {
			if at < 3 {
				t.Fatalf("%s makes %d accesses", what, at-1)
			}
			return
		}
	}
}

// pick picks a piece with nothing in the cache.
func (w *world) pick(at float64) error {
	w.env.Cache.SetBudget(0)
	p, err := w.s.Pieces([]byte("k0005"), []byte("k0095"))
	if err != nil {
		return err
	}
	defer p.Close()
	_, err = p.Pick(p.Weight() * at)
	return err
}

func TestEachReadFails(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	for what, read := range map[string]func(w *world) error{
		"Get": func(w *world) error {
			_, err := w.get("k0060", w.seq)
			return err
		},
		"Get in the past": func(w *world) error {
			_, err := w.get("k0045", 150)
			return err
		},
		"ChangedSince": func(w *world) error {
			_, err := w.s.ChangedSince([]byte("k0060"), hashOf([]byte("k0060")), 0)
			return err
		},
		"ChangedIn": func(w *world) error {
			_, _, err := w.s.ChangedIn([]byte("k0060"), []byte("k0060x"), 0)
			return err
		},
		"ChangedIn nothing": func(w *world) error {
			key, _, err := w.s.ChangedIn([]byte("k0060x"), []byte("k0060y"), 0)
			if len(key) > 0 {
				return errors.New("something has changed")
			}
			return err
		},
		"scan": func(w *world) error {
			_, err := w.scan(bounds("k0010", "k0095", w.seq, false), nil)
			return err
		},
		"scan of the past in reverse": func(w *world) error {
			_, err := w.scan(bounds("", "", 150, true), nil)
			return err
		},
		"first piece":  func(w *world) error { return w.pick(0) },
		"second piece": func(w *world) error { return w.pick(0.15) },
		"piece":        func(w *world) error { return w.pick(0.4) },
		"later piece":  func(w *world) error { return w.pick(0.7) },
		"last piece":   func(w *world) error { return w.pick(0.99) },
		"compact": func(w *world) error {
			out, err := w.startCompaction(0, len(w.s.View().Runs))
			if err != nil {
				return err
			}
			return stripe.Discard(out)
		},
	} {
		t.Run(what, func(t *testing.T) { eachReadFails(t, what, read) })
	}
}

// Numbers above which nothing was written.
func TestNewestSeqOfAClosedStripe(t *testing.T) {
	w := newWorld(t, vfs.NewMem())
	w.commit(put("k", "v"))
	if n := w.s.NewestSeq(); n != 1 {
		t.Errorf("newest %d, want 1", n)
	}
	w.s.Close()
	low, held := w.s.MinSeq(nil)
	if n := w.s.NewestSeq(); n != 0 || low != 0 || held || w.s.ID() != stripeID {
		t.Errorf("newest %d, lowest %d, %v", n, low, held)
	}
	if _, err := w.s.Pieces(nil, nil); !errors.Is(err, stripe.ErrClosed) {
		t.Errorf("Pieces: %v", err)
	}
}

// A merge finds which run is damaged, and only damage marks a run.
func TestDamagedRuns(t *testing.T) {
	for run := range 3 {
		for _, damaged := range []bool{false, true} {
			for _, ranges := range []bool{false, true} {
				w := newInterrupted(t)
				for i := range 3 {
					if ranges {
						w.commit(delRange("x", fmt.Sprint("y", i)))
					}
					w.fill(50, fmt.Sprint(i))
				}
				w.reopen()
				name := w.s.View().Runs[run].Files[0].Meta.Name()
				w.set(func(op vfstest.Op) error {
					if op.Kind != vfstest.OpReadAt || op.Name != "db/"+name {
						return nil
					}
					if damaged {
						return corrupt.New(op.Name, op.Offset, "block", "its checksum", "another")
					}
					return vfs.ErrNoSpace
				})
				_, err := w.startCompaction(0, 3)
				w.set(nil)
				var re *stripe.ReadError
				if !errors.As(err, &re) {
					t.Fatalf("run %d: %v is not an error of reading", run, err)
				}
				want := 3
				if damaged {
					want = run
				}
				if n := w.s.View().Readable(); n != want {
					t.Errorf("run %d, damaged %v, ranges %v: %d runs are readable, want %d", run,
						damaged, ranges, n, want)
				}
				w.checkFiles()
			}
		}
	}
}
