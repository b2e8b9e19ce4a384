package stripe_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/compaction"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/stripe"
)

// The history of the concurrent test is a function of the sequence number, so that
// readers need no shared model: commit n deletes [k010, k020) if n is a multiple of 11,
// removes key n mod 50 if it is one of 7, and otherwise sets that key to n.
const crowdKeys = 50

func crowdKey(i int) string { return fmt.Sprintf("k%03d", i) }

func crowdOp(n base.SeqNum) op {
	key := crowdKey(int(n) % crowdKeys)
	switch {
	case n%11 == 0:
		return delRange(crowdKey(10), crowdKey(20))
	case n%7 == 0:
		return del(key)
	}
	return put(key, fmt.Sprint(n))
}

// crowdValue returns what key i shows at snap, "" if nothing.
func crowdValue(i int, snap base.SeqNum) string {
	for n := snap; n > 0; n-- {
		switch o := crowdOp(n); {
		case o.kind == base.KindDeleteRange && i >= 10 && i < 20,
			o.key == crowdKey(i) && o.kind == base.KindDelete:
			return ""
		case o.key == crowdKey(i) && o.kind == base.KindPut:
			return o.value
		}
	}
	return ""
}

// crowd is a world used by many goroutines; the engine's bookkeeping of snapshots in
// its simplest form.
type crowd struct {
	*world
	mu      sync.Mutex
	visible base.SeqNum         // guarded by mu
	readers map[base.SeqNum]int // guarded by mu; registered snapshots
	done    atomic.Bool
	merges  atomic.Int64
}

func (c *crowd) enter() base.SeqNum {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readers[c.visible]++
	return c.visible
}

func (c *crowd) leave(snap base.SeqNum) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readers[snap]--; c.readers[snap] == 0 {
		delete(c.readers, snap)
	}
}

func (c *crowd) retention() stripe.Retention {
	c.mu.Lock()
	defer c.mu.Unlock()
	ret := stripe.Retention{Horizon: c.visible, NowMs: nowMs}
	for s := range c.readers {
		ret.Snapshots = append(ret.Snapshots, s)
	}
	slices.Sort(ret.Snapshots)
	return ret
}

// write commits at least so often, and until there have been merges enough.
func (c *crowd) write(t *testing.T, commits base.SeqNum) {
	defer c.done.Store(true)
	for n := base.SeqNum(1); n <= commits || c.merges.Load() < 10; n++ {
		if c.done.Load() {
			return
		}
		ret := c.retention()
		horizon := ret.Horizon
		if len(ret.Snapshots) > 0 {
			horizon = min(horizon, ret.Snapshots[0])
		}
		o := crowdOp(n)
		c.s.Lock()
		if o.kind == base.KindDeleteRange {
			c.s.DeleteRange(base.RangeTombstone{Start: []byte(o.key), End: []byte(o.end), Seq: n})
		} else {
			e := o.entry(n)
			c.s.Put(&e, hashOf(e.Key), horizon)
		}
		c.mu.Lock()
		c.visible = n
		c.mu.Unlock()
		if n > 1 {
			if _, err := c.s.ChangedSince([]byte(o.key), hashOf([]byte(o.key)), n-1); err != nil {
				t.Error(err)
			}
		}
		c.s.Unlock()
	}
}

// flushAll keeps writing memtables; merge keeps merging runs.
func (c *crowd) flushAll(t *testing.T, run *atomic.Uint64) {
	var b stripe.Builder
	for !c.done.Load() {
		c.freeze()
		out, err := c.s.Flush(ctx, &b, c.retention(), run.Add(1))
		if err != nil {
			t.Error(err)
			c.done.Store(true)
			return
		}
		if out != nil {
			c.publish(t, out)
		}
	}
}

func (c *crowd) merge(t *testing.T, run *atomic.Uint64) {
	var b stripe.Builder
	for i := 0; !c.done.Load(); i++ {
		v := c.s.Acquire()
		if n := len(v.Runs); n > 3 {
			plan := compaction.Plan{Lo: i % 2, Hi: n}
			if i%3 == 0 {
				plan.Hi--
			}
			plan.Bottom = plan.Hi == n
			out, err := c.s.Compact(ctx, &b, v, plan, c.retention(), run.Add(1))
			if err != nil {
				t.Error(err)
				c.done.Store(true)
			} else {
				c.publish(t, out)
				c.merges.Add(1)
			}
		}
		v.Release()
	}
}

func (c *crowd) publish(t *testing.T, out *stripe.Output) {
	ok(t, out.Sync())
	c.s.Install(out)
}

// scan checks whole pictures of the stripe, in both directions.
func (c *crowd) scanAll(t *testing.T) {
	var cur stepper
	for i := 0; !c.done.Load(); i++ {
		snap := c.enter()
		reverse := i%2 == 1
		if err := cur.Open(c.s, bounds("", "", snap, reverse)); err != nil {
			t.Error(err)
			c.done.Store(true)
			return
		}
		got := map[string]string{}
		for cur.Next() {
			got[string(cur.Entry().Key)] = string(cur.Entry().Value)
		}
		ok(t, cur.Err())
		cur.Close()
		for k := range crowdKeys {
			if want := crowdValue(k, snap); got[crowdKey(k)] != want {
				t.Errorf("scan at %d, reverse %v: %s is %q, want %q", snap, reverse, crowdKey(k),
					got[crowdKey(k)], want)
				c.done.Store(true)
			}
		}
		c.leave(snap)
	}
}

func (c *crowd) getAll(t *testing.T) {
	for i := 0; !c.done.Load(); i++ {
		snap := c.enter()
		k := i * 7 % crowdKeys
		got, err := c.get(crowdKey(k), snap)
		want := crowdValue(k, snap)
		if want != "" {
			want = fmt.Sprintf("%s=%s@%s", crowdKey(k), want, want)
		}
		if err != nil || got != want {
			t.Errorf("get %s at %d: %q, %v, want %q", crowdKey(k), snap, got, err, want)
			c.done.Store(true)
		}
		c.leave(snap)
	}
}

// Readers see exactly their snapshot while memtables freeze, flush and merge under
// them, and afterwards the directory holds what the stripe refers to.
func TestConcurrentReadersAndMaintenance(t *testing.T) {
	fsys := vfs.NewMem()
	c := &crowd{world: newWorld(t, fsys), readers: map[base.SeqNum]int{}}
	c.env.FileBytes, c.env.LargeValue = 1<<10, 3
	var last atomic.Uint64
	c.env.NextFile = func() base.FileNum { return base.FileNum(last.Add(1)) }
	removed := map[string]int{}
	c.env.Obsolete = func(name string) {
		c.mu.Lock()
		removed[name]++
		c.mu.Unlock()
		if err := fsys.Remove("db/" + name); err != nil {
			t.Error(err)
		}
	}
	var run atomic.Uint64
	var wg sync.WaitGroup
	wg.Go(func() { c.write(t, base.SeqNum(testutil.Effort(4_000, 10_000))) })
	wg.Go(func() { c.flushAll(t, &run) })
	wg.Go(func() { c.merge(t, &run) })
	for range 2 {
		wg.Go(func() { c.scanAll(t) })
		wg.Go(func() { c.getAll(t) })
	}
	wg.Wait()
	for name, n := range removed {
		if n != 1 {
			t.Errorf("%s was given up %d times", name, n)
		}
	}
	if len(removed) == 0 {
		t.Error("no file became obsolete: the test does not test merges")
	}
	c.checkFiles()
	c.s.Close()
	if n := fsys.OpenFiles(); n != 0 {
		t.Errorf("%d files are open after Close", n)
	}
}
