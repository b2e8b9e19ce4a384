package stripe_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/memtable"
	"github.com/kstonedb/kstone/stripe"
)

// machine drives a world at random. Every action compares what it reads with the
// model, and after every action the directory must hold exactly the files that the
// current view, open cursors and unfinished outputs need.
type machine struct {
	*world
	prefix    string // of all keys
	flushing  *stripe.Output
	compacted *stripe.Output
	walkers   []*walker
}

// walker is an open cursor with the rows it has yet to show.
type walker struct {
	c     stepper
	snap  base.SeqNum
	rows  []string
	files []string
}

func TestModel(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	testutil.Check(t, func(t *rapid.T) {
		m := &machine{world: newWorld(t, vfs.NewMem())}
		m.env.FileBytes = int64(rapid.SampledFrom([]int{1, 700, 1 << 20}).Draw(t, "file bytes"))
		m.env.PartBlocks = rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "blocks of a part")
		m.env.LargeValue = rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "large value")
		if rapid.Bool().Draw(t, "tiny cache") {
			m.env.Cache.SetBudget(0)
		}
		if rapid.Bool().Draw(t, "long keys") {
			m.prefix = "a prefix of more than eight bytes/"
		}
		t.Repeat(map[string]func(*rapid.T){
			"commit":   m.commitSome,
			"burst":    m.burst,
			"freeze":   func(*rapid.T) { m.freeze() },
			"flush":    m.startOrEndFlush,
			"compact":  m.startOrEndCompaction,
			"snapshot": m.takeOrDropSnapshot,
			"scan":     m.scanSome,
			"walk":     m.walk,
			"changed":  m.changed,
			"reopen":   m.closeAndOpen,
			"":         func(*rapid.T) { m.check() },
		})
		for len(m.walkers) > 0 {
			m.finish(0)
		}
		m.check()
		m.s.Close()
	})
}

func (m *machine) check() {
	m.checkGets(m.seq)
	var pinned []string
	for _, w := range m.walkers {
		pinned = append(pinned, w.files...)
	}
	for _, o := range []*stripe.Output{m.flushing, m.compacted} {
		if o != nil && o.Run != nil {
			for _, f := range o.Run.Files {
				pinned = append(pinned, fileNames(f)...)
			}
		}
	}
	m.checkFiles(pinned...)
}

func (m *machine) key(t *rapid.T, label string) string {
	return m.prefix + fmt.Sprintf("%02d", rapid.IntRange(0, 60).Draw(t, label))
}

func (m *machine) keyRange(t *rapid.T) (lo, hi string) {
	lo, hi = m.key(t, "lo"), m.key(t, "hi")
	if lo > hi {
		lo, hi = hi, lo
	}
	if lo == hi {
		hi += "\x00"
	}
	return lo, hi
}

func (m *machine) anyOp(t *rapid.T) op {
	key, value := m.key(t, "key"), fmt.Sprint("v", m.seq)
	switch rapid.IntRange(0, 9).Draw(t, "op") {
	case 0, 1:
		return del(key)
	case 2:
		o := put(key, value)
		o.kind, o.expiry = base.KindPutTTL, int64(nowMs+rapid.IntRange(-1, 1).Draw(t, "expiry"))
		return o
	}
	return put(key, value)
}

func (m *machine) commitSome(t *rapid.T) {
	var ops []op
	if rapid.IntRange(0, 5).Draw(t, "range") == 0 {
		ops = append(ops, delRange(m.keyRange(t)))
	}
	for range rapid.IntRange(1, 5).Draw(t, "ops") {
		ops = append(ops, m.anyOp(t))
	}
	m.commit(ops...)
}

// burst fills a range, perhaps flushes, and deletes most of it, so that cursors have
// reason to skip; then it writes into the hole.
func (m *machine) burst(t *rapid.T) {
	for i := range 60 {
		m.commit(put(m.prefix+fmt.Sprintf("%02d", i), fmt.Sprint("b", i)))
	}
	if m.flushing == nil && rapid.Bool().Draw(t, "flush") {
		m.flush()
	}
	lo, hi := m.keyRange(t)
	m.commit(delRange(lo, hi))
	if m.flushing == nil && rapid.Bool().Draw(t, "flush the tombstone") {
		m.flush()
	}
	if rapid.Bool().Draw(t, "fill") {
		m.commit(put(m.key(t, "key"), "new"))
	}
}

func (m *machine) startOrEndFlush(t *rapid.T) {
	if m.flushing == nil {
		o, err := m.startFlush()
		ok(t, err)
		m.flushing = o
		return
	}
	if rapid.IntRange(0, 3).Draw(t, "discard") == 0 {
		ok(t, stripe.Discard(m.flushing))
	} else {
		ok(t, m.install(m.flushing))
	}
	m.flushing = nil
}

func (m *machine) startOrEndCompaction(t *rapid.T) {
	if m.compacted != nil {
		ok(t, m.install(m.compacted))
		m.compacted = nil
		return
	}
	n := len(m.s.View().Runs)
	if n == 0 {
		return
	}
	lo := rapid.IntRange(0, n-1).Draw(t, "lo")
	hi := rapid.IntRange(lo+1, n).Draw(t, "hi")
	o, err := m.startCompaction(lo, hi)
	ok(t, err)
	m.compacted = o
}

func (m *machine) takeOrDropSnapshot(t *rapid.T) {
	if len(m.snaps) > len(m.walkers) && rapid.Bool().Draw(t, "drop") {
		own := slices.Clone(m.snaps)
		for _, w := range m.walkers {
			i := slices.Index(own, w.snap)
			own = slices.Delete(own, i, i+1)
		}
		m.releaseSnapshot(rapid.SampledFrom(own).Draw(t, "snapshot"))
		return
	}
	m.snapshot()
}

// anySnapshot draws a number that may be read at.
func (m *machine) anySnapshot(t *rapid.T) base.SeqNum {
	return rapid.SampledFrom(append(slices.Clone(m.snaps), m.seq)).Draw(t, "snapshot")
}

// anyBounds draws bounds; both may be open.
func (m *machine) anyBounds(t *rapid.T) (lo, hi string) {
	lo, hi = m.keyRange(t)
	if rapid.IntRange(0, 3).Draw(t, "no lo") == 0 {
		lo = ""
	}
	if rapid.IntRange(0, 3).Draw(t, "no hi") == 0 {
		hi = ""
	}
	return lo, hi
}

func (m *machine) scanSome(t *rapid.T) {
	lo, hi := m.anyBounds(t)
	snap, reverse := m.anySnapshot(t), rapid.Bool().Draw(t, "reverse")
	m.checkGets(snap)
	m.checkScan(lo, hi, snap, reverse)
	// The same with a transaction's writes on top.
	view := m.model.asOf(snap)
	overlay := memtable.New(memtable.Options{Seed: seed})
	for i := range rapid.IntRange(0, 6).Draw(t, "overlay") {
		o := m.anyOp(t)
		if rapid.IntRange(0, 4).Draw(t, "range") == 0 {
			o = delRange(m.keyRange(t))
		}
		addTo(overlay, o, overlayBase+base.SeqNum(i))
		view.apply(o, overlayBase+base.SeqNum(i))
	}
	got, err := m.scan(bounds(lo, hi, snap, reverse), overlay)
	ok(t, err)
	if want := view.rows(lo, hi, base.MaxSeqNum, reverse); !slices.Equal(got, want) {
		t.Fatalf("scan with overlay [%q, %q) at %d:\n got %q\nwant %q", lo, hi, snap, got, want)
	}
}

// asOf returns a copy without what came after snap.
func (h *history) asOf(snap base.SeqNum) history {
	c := history{versions: maps.Clone(h.versions), ranges: slices.Clone(h.ranges)}
	c.ranges = slices.DeleteFunc(c.ranges, func(t base.RangeTombstone) bool { return t.Seq > snap })
	for k, list := range c.versions {
		c.versions[k] = slices.DeleteFunc(slices.Clone(list), func(e base.Entry) bool {
			return e.Seq > snap
		})
	}
	return c
}

// walk opens a cursor that stays open, or moves one on.
func (m *machine) walk(t *rapid.T) {
	if len(m.walkers) < 3 && rapid.Bool().Draw(t, "open") {
		lo, hi := m.anyBounds(t)
		reverse := rapid.Bool().Draw(t, "reverse")
		w := &walker{snap: m.snapshot(), files: viewFiles(m.s.View())}
		w.rows = m.model.rows(lo, hi, w.snap, reverse)
		ok(t, w.c.Open(m.s, bounds(lo, hi, w.snap, reverse)))
		m.walkers = append(m.walkers, w)
		return
	}
	if len(m.walkers) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.walkers)-1).Draw(t, "walker")
	switch rapid.IntRange(0, 3).Draw(t, "move") {
	case 0:
		m.finish(i)
	case 1:
		m.drop(i)
	default:
		w := m.walkers[i]
		for range min(len(w.rows), rapid.IntRange(1, 20).Draw(t, "steps")) {
			m.step(w)
		}
	}
}

// step moves over the next live row.
func (m *machine) step(w *walker) {
	for w.c.Next() {
		if e := w.c.Entry(); e.Live(nowMs) {
			if got := row(e); got != w.rows[0] {
				m.t.Fatalf("open cursor at %d shows %s, want %s", w.snap, got, w.rows[0])
			}
			w.rows = w.rows[1:]
			return
		}
	}
	m.t.Fatalf("open cursor at %d ends (%v), want %s", w.snap, w.c.Err(), w.rows[0])
}

// finish reads a cursor to its end and closes it.
func (m *machine) finish(i int) {
	w := m.walkers[i]
	got, err := rest(&w.c)
	ok(m.t, err)
	if !slices.Equal(got, w.rows) {
		m.t.Fatalf("open cursor at %d goes on with %q, want %q", w.snap, got, w.rows)
	}
	m.drop(i)
}

func (m *machine) drop(i int) {
	w := m.walkers[i]
	w.c.Close()
	m.releaseSnapshot(w.snap)
	m.walkers = slices.Delete(m.walkers, i, i+1)
}

// changed asks what has changed since a registered snapshot, like a transaction.
func (m *machine) changed(t *rapid.T) {
	since := m.anySnapshot(t)
	lo, hi := m.anyBounds(t)
	m.s.Lock()
	defer m.s.Unlock()
	for k := range m.model.versions {
		got, err := m.s.ChangedSince([]byte(k), hashOf([]byte(k)), since)
		ok(t, err)
		m.judgeChange(k, since, got)
	}
	b := bounds(lo, hi, 0, false)
	key, got, err := m.s.ChangedIn(b.Lo, b.Hi, since)
	ok(t, err)
	if got == 0 {
		for k := range m.model.versions {
			if k >= lo && (hi == "" || k < hi) {
				m.judgeChange(k, since, 0)
			}
		}
		return
	}
	if got <= since || !m.model.wrote(string(key), got) {
		t.Fatalf("ChangedIn(%q, %q) since %d: %q at %d, which nobody wrote",
			lo, hi, since, key, got)
	}
}

// judgeChange checks an answer about one key. A change that no reader from since on
// could ever tell may go unnoticed: merges drop both what was put and its deletion.
func (m *machine) judgeChange(key string, since, got base.SeqNum) {
	if got != 0 {
		e, cover, _ := m.model.newest(key, m.seq)
		if newest := max(e.Seq, cover); got <= since || got != newest && !m.model.wrote(key, got) {
			m.t.Fatalf("%q changed since %d: answer %d, newest is %d", key, since, got, newest)
		}
		return
	}
	was, before := m.model.live(key, since)
	is, now := m.model.live(key, m.seq)
	if before != now || before && was.Seq != is.Seq {
		m.t.Fatalf("%q is said not to have changed since %d, but it went from %v to %v",
			key, since, row(&was), row(&is))
	}
}

// wrote reports whether commit seq touched key, by itself or in a range.
func (h *history) wrote(key string, seq base.SeqNum) bool {
	for _, t := range h.ranges {
		if t.Seq == seq { // the answer may be the start of the range or of a fragment
			return true
		}
	}
	return slices.ContainsFunc(h.versions[key], func(e base.Entry) bool { return e.Seq == seq })
}

func (m *machine) closeAndOpen(*rapid.T) {
	if len(m.walkers) > 0 || m.flushing != nil || m.compacted != nil {
		return
	}
	m.flush()
	m.reopen()
}
