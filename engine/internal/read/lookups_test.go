package read

import (
	"fmt"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// One key, a few and many are found alike, at the present, at a moment and under the writes of a
// transaction, in whatever way a group of their size is looked up. The same holds for keys that
// stay in the text of a batch.
func TestLookupsOfEverySizeAgree(t *testing.T) {
	w := newWorld(t)
	rnd := testutil.Rand(t)
	old, now := map[string]string{}, map[string]string{}
	name := func() string { return fmt.Sprint("k", rnd.IntN(5000)) }
	for i := range 3000 {
		k, v := name(), fmt.Sprint("old", i)
		w.put(k, v)
		old[k], now[k] = v, v
	}
	var at Moment
	w.ok(at.Take(w.State))
	defer at.Release()
	var own Overlay
	own.Init(w.State, &at, false)
	tx := map[string]string{}
	for i := range 2000 {
		k, v := name(), fmt.Sprint("new", i)
		w.put(k, v)
		now[k] = v
	}
	for k, v := range old {
		tx[k] = v
	}
	for i := range 500 {
		k, v := name(), fmt.Sprint("own", i)
		e := base.Entry{Key: ordered(k), Kind: base.KindPut, Value: []byte(v)}
		own.Put(keycodec.Stripe([]byte(k)), &e)
		tx[k] = v
	}
	for what, c := range map[string]struct {
		r    Reader
		want map[string]string
	}{
		"present":     {w.Reader(nil, nil), now},
		"moment":      {w.Reader(&at, nil), old},
		"transaction": {w.Reader(&at, &own), tx},
	} {
		for _, n := range []int{0, 1, 2, 4, 5, 32, 33, 4000} {
			var keys []keycodec.Key
			for range n {
				keys = append(keys, keycodec.Key{PK: []byte(name())})
			}
			t.Run(fmt.Sprintf("%s/%d", what, n), func(t *testing.T) {
				checkLookups(t, w, &c.r, keys, c.want)
			})
		}
	}
	if set := own.Stripes(); set == (base.StripeSet{}) {
		t.Error("a transaction has read nothing")
	}
}

func checkLookups(
	t *testing.T, w *world, r *Reader, keys []keycodec.Key, want map[string]string,
) {
	t.Helper()
	seen := make([]int, len(keys))
	take := func(found []base.Lookup, nowMs int64) {
		for i := range found {
			f := &found[i]
			v, ok := want[string(keys[f.Index].PK)]
			seen[f.Index]++
			if f.Live(nowMs) != ok || string(f.Value) != v {
				t.Errorf("%q: %v, %q, want %v, %q", keys[f.Index].PK, f.Found, f.Value, ok, v)
			}
		}
	}
	w.ok(r.LookupMany(ctx, keys, false, true, take))
	if r.at == nil {
		var text []byte
		var ends []uint32
		for i := range keys {
			text = keycodec.AppendOrdered(text, keys[i])
			ends = append(ends, uint32(len(text)))
		}
		w.ok(w.LookupManyLocked(ctx, len(keys), true, text, func(i int) (uint8, uint32, uint32) {
			from := uint32(0)
			if i > 0 {
				from = ends[i-1]
			}
			return keycodec.Stripe(keys[i].PK), from, ends[i]
		}, take))
	}
	times := 1
	if r.at == nil {
		times = 2
	}
	if i := slices.IndexFunc(seen, func(n int) bool { return n != times }); i >= 0 {
		t.Errorf("key %d is looked up %d times, want %d", i, seen[i], times)
	}
	for i := range keys {
		var e base.Entry
		live, err := r.Lookup(keys[i], true, &e)
		v, ok := want[string(keys[i].PK)]
		if err != nil || live != ok || live && string(e.Value) != v {
			t.Errorf("%q alone: %v, %q, %v, want %v, %q", keys[i].PK, live, e.Value, err, ok, v)
		}
	}
}

// What a group of lookups has found does not stay in the pool.
func TestPooledLookupsKeepNothing(t *testing.T) {
	w := newWorld(t)
	present := w.Reader(nil, nil)
	for _, n := range []int{3, 20, 50} {
		var keys []keycodec.Key
		for i := range n {
			w.put(fmt.Sprint(i), "value")
			keys = append(keys, keycodec.Key{PK: fmt.Append(nil, i)})
		}
		l := new(lookups)
		ok(t, l.take(keys))
		ok(t, l.begin(&present))
		found := 0
		for l.next(ctx, &l.lane) {
			found += len(l.list)
		}
		l.end()
		putLookups(l)
		if found != n {
			t.Errorf("%d of %d keys are looked up", found, n)
		}
		for i, f := range l.list[:cap(l.list)] {
			if f.Key != nil || f.Value != nil {
				t.Fatalf("%d keys: lookup %d stays", n, i)
			}
		}
		if l.state != nil || l.tx != nil || l.text != nil {
			t.Error("the database stays")
		}
	}
}
