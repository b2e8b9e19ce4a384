package read

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// names returns the partition keys of what an iteration shows, and ends it.
func names(t *testing.T, it *Iteration) (pks []string) {
	t.Helper()
	for it.Next() {
		pks = append(pks, string(it.Item.Key.PK))
	}
	ok(t, it.Err())
	it.Close()
	return pks
}

// begun returns an iteration of r.
func begun(t *testing.T, r Reader, limit int) *Iteration {
	t.Helper()
	it := NewIteration()
	ok(t, it.Start(ctx, r, limit))
	return it
}

// everyStripe are the numbers of all stripes.
var everyStripe = func() (all []uint8) {
	for i := range base.NumStripes {
		all = append(all, uint8(i))
	}
	return all
}()

// The same items come in every way of reading: in order, in reverse, stripe by stripe, as
// partitions that are gathered, and as a sample of everything. Iterations release what they have
// registered.
func TestIterationsAgree(t *testing.T) {
	w := newWorld(t)
	var want []string
	var pks [][]byte
	for i := range 300 {
		pk := fmt.Sprintf("p%03d", i)
		w.put(pk, "v")
		want, pks = append(want, pk), append(pks, []byte(pk))
	}
	back := slices.Clone(want)
	slices.Reverse(back)
	for what, c := range map[string]struct {
		open    func(*Iteration)
		want    []string
		ordered bool
	}{
		"merged": {func(it *Iteration) {
			it.Stripes(everyStripe, base.Span{})
			it.Read(base.Span{}, false)
		}, want, true},
		"merged twice": {func(it *Iteration) {
			it.Stripes(everyStripe, base.Span{})
			it.Read(base.Span{}, false)
			it.Next()
			it.Read(base.Span{Lo: ordered("p100")}, true)
		}, back[:200], true},
		"reverse": {func(it *Iteration) {
			it.Stripes(everyStripe, base.Span{})
			it.Read(base.Span{}, true)
		}, back, true},
		"walked": {func(it *Iteration) {
			it.Stripes(everyStripe, base.Span{})
			it.Walk(base.Span{}, false)
		}, want, false},
		"gathered": {func(it *Iteration) { it.Gather(&Gather{PKs: pks}, true) }, want, false},
		"by partition": {func(it *Iteration) {
			it.Gather(&Gather{PKs: pks, ByPartition: true, Reverse: true}, true)
		}, back, true},
		"resumed": {func(it *Iteration) {
			after := keycodec.Key{PK: []byte("p100")}
			it.Gather(&Gather{PKs: pks, ByPartition: true, After: after, Resumed: true}, true)
		}, want[101:], true},
		"sampled": {func(it *Iteration) {
			it.Sample(base.Span{}, 1<<20, func() float64 { return 0.5 })
		}, want, false},
		"partition": {func(it *Iteration) {
			s := base.Span{Lo: ordered("p007"), Hi: PartitionEnd(ordered("p007"))}
			it.Partition([]byte("p007"), len(s.Lo), s)
			it.Read(s, false)
		}, want[7:8], true},
		"nothing": {func(it *Iteration) {
			s := base.Span{Lo: ordered("p008"), Hi: ordered("p007")}
			it.Stripes(everyStripe, s)
			it.Read(s, false)
		}, nil, true},
	} {
		it := begun(t, w.Reader(nil, nil), 0)
		c.open(it)
		got := names(t, it)
		if !c.ordered {
			slices.Sort(got)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %d items, want %d: %q", what, len(got), len(c.want), got)
		}
	}
	if n := w.Registered(); n != 0 {
		t.Errorf("%d readers are registered after all have ended", n)
	}
}

// An iteration sees its moment, also one that is released meanwhile, and no new reader can join
// that one.
func TestIterationsKeepTheirMoment(t *testing.T) {
	w := newWorld(t)
	w.put("a", "1")
	var at Moment
	w.ok(at.Take(w.State))
	r := w.Reader(&at, nil)
	w.put("b", "2")
	it := begun(t, r, 0)
	it.Stripes(everyStripe, base.Span{})
	it.Read(base.Span{}, false)
	at.Release()
	at.Release()
	if got := names(t, it); !slices.Equal(got, []string{"a"}) {
		t.Errorf("%q", got)
	}
	var e base.Entry
	if _, err := r.Lookup(keycodec.Key{PK: []byte("a")}, true, &e); !errors.Is(err, ErrClosed) {
		t.Errorf("a lookup at a released moment: %v", err)
	}
	late := NewIteration()
	defer late.Close()
	wantIs(t, late.Start(ctx, r, 0), ErrClosed)
}

// An iteration ends when the database is closed, and when its context ends.
func TestIterationsEnd(t *testing.T) {
	w := newWorld(t)
	for i := range 2 * checkEvery {
		w.put(fmt.Sprint(i), "v")
	}
	count := func(during func(int), c context.Context) (n int, err error) {
		it := NewIteration()
		defer it.Close()
		w.ok(it.Start(c, w.Reader(nil, nil), 0))
		it.Stripes(everyStripe, base.Span{})
		it.Walk(base.Span{}, false)
		for it.Skip() {
			n++
			during(n)
		}
		return n, it.Err()
	}
	c, cancel := context.WithCancel(ctx)
	n, err := count(func(int) { cancel() }, c)
	if n > checkEvery || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v after %d items", err, n)
	}
	n, err = count(func(n int) {
		if n == 3 {
			w.Close()
		}
	}, ctx)
	if n != 3 || !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v after %d items", err, n)
	}
}

// A reader waits for commits that have a number and are not visible: one that takes a moment for
// all of them, a lookup for the one that it meets.
func TestReadersWaitForUnfinishedCommits(t *testing.T) {
	w := newWorld(t)
	w.put("k", "old")
	first := w.begin("k", "new")
	second := w.begin("other", "")
	w.Publish(second)
	if v := w.Visible(); v != first-1 {
		t.Fatalf("commit %d is visible although %d is unfinished", v, first)
	}
	var finished atomic.Bool
	var ready, wg sync.WaitGroup
	reader := func(read func()) {
		ready.Add(1)
		wg.Go(func() {
			ready.Done()
			read()
			if !finished.Load() {
				t.Error("a reader has not waited for a commit that it must see")
			}
		})
	}
	reader(func() {
		var at Moment
		if err := at.Take(w.State); err != nil || at.Seq() != second {
			t.Errorf("a moment at %d, want %d, %v", at.Seq(), second, err)
		}
		at.Release()
	})
	reader(func() {
		var e base.Entry
		r := w.Reader(nil, nil)
		live, err := r.Lookup(keycodec.Key{PK: []byte("k")}, true, &e)
		if err != nil || !live || string(e.Value) != "new" {
			t.Errorf("%v, %q, %v", live, e.Value, err)
		}
	})
	ready.Wait()
	for range 1000 {
		runtime.Gosched()
	}
	finished.Store(true)
	w.Publish(first)
	wg.Wait()
}

// What a transaction has read is changed by commits after its moment, and by no others.
func TestOverlayNoticesChanges(t *testing.T) {
	w := newWorld(t)
	w.put("a", "1")
	w.put("b", "1")
	for _, c := range []struct {
		put, changed string
	}{{"", ""}, {"c", ""}, {"a", "a"}, {"b", "b"}} {
		var at Moment
		w.ok(at.Take(w.State))
		var own Overlay
		own.Init(w.State, &at, false)
		r := w.Reader(&at, &own)
		var e base.Entry
		_, err := r.Lookup(keycodec.Key{PK: []byte("a")}, true, &e)
		w.ok(err)
		it := begun(t, r, 0)
		s := base.Span{Lo: ordered("b"), Hi: PartitionEnd(ordered("b"))}
		it.Partition([]byte("b"), len(s.Lo), s)
		it.Close()
		seq := base.SeqNum(0)
		if c.put != "" {
			seq = w.put(c.put, "2")
		}
		if c.changed == "" {
			seq = 0
		}
		key, got, err := own.Changed()
		if err != nil || got != seq || seq > 0 && string(key) != string(ordered(c.changed)) {
			t.Errorf("after a put of %q: %q changed at %d, %v", c.put, key, got, err)
		}
		at.Release()
	}
}
