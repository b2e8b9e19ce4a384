package stripe_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/kstonedb/kstone/compaction"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/memtable"
	"github.com/kstonedb/kstone/sst"
	"github.com/kstonedb/kstone/stripe"
)

const (
	seed     = 0x5eed
	stripeID = 7
	// nowMs is the time of every reader and merge in these tests.
	nowMs = 1000
)

var ctx = context.Background()

var ok = testutil.OK

// failer is what a world needs of a test; *testing.T and *rapid.T have it.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// world is a stripe on a file system in memory, with the engine's duties done by hand,
// beside a model: the history of every key.
type world struct {
	t       failer
	fs      vfs.FS
	env     stripe.Env
	s       *stripe.Stripe
	b       stripe.Builder
	lastNum base.FileNum
	lastRun uint64
	// junk is what new files hold at first, as if they were recycled.
	junk []byte

	seq     base.SeqNum
	model   history
	snaps   []base.SeqNum // registered, any order
	gone    []string      // files given to Obsolete
	known   map[knownSpan]*stripe.Known
	runs    []*manifest.Run
	failed  error             // the first complaint of a callback
	reason  compaction.Reason // of merges
	entries stripe.Entries    // reused
}

// knownSpan is a span of a stripe.
type knownSpan struct {
	s      *stripe.Stripe
	lo, hi string
}

// history is the model of an ordered store with versions.
type history struct {
	versions map[string][]base.Entry // oldest first
	ranges   []base.RangeTombstone
}

// newWorld returns an empty stripe on fsys. Blocks and files are small.
func newWorld(t failer, fsys vfs.FS) *world {
	w := &world{t: t, fs: fsys, model: history{versions: map[string][]base.Entry{}},
		known: map[knownSpan]*stripe.Known{}}
	ok(t, fsys.MkdirAll("db"))
	w.env = stripe.Env{
		FS: fsys, Dir: "db", DBID: [16]byte{1}, Seed: seed,
		Cache: cache.New(1 << 20), Stats: &sst.Stats{},
		Files:      cache.NewFiles(func(n string) (cache.File, error) { return fsys.Open(n) }, 0),
		BlockBytes: 256, FileBytes: 64 << 20, RunFiles: 16, FilterBits: 8,
		UpperCodec: sst.LZ4, BottomCodec: sst.LZ4,
		Memory:   new(atomic.Int64),
		NextFile: func() base.FileNum { w.lastNum++; return w.lastNum },
		Create:   w.create,
		Obsolete: w.obsolete,
	}
	w.s = new(stripe.Stripe)
	w.s.Init(stripeID, &w.env, nil)
	return w
}

func (w *world) create(name string) (vfs.File, error) {
	f, err := w.fs.Create(name)
	if err != nil || len(w.junk) == 0 {
		return f, err
	}
	if _, err := f.WriteAt(w.junk, 0); err != nil {
		return nil, errors.Join(err, f.Close(), w.fs.Remove(name))
	}
	return f, nil
}

func (w *world) obsolete(name string) {
	w.gone = append(w.gone, name)
	if err := w.fs.Remove(filepath.Join("db", name)); err != nil && w.failed == nil {
		w.failed = err
	}
}

// op is one operation of a commit.
type op struct {
	kind   base.Kind
	key    string
	end    string // of a range tombstone
	value  string
	expiry int64
}

func put(key, value string) op { return op{kind: base.KindPut, key: key, value: value} }
func del(key string) op        { return op{kind: base.KindDelete, key: key} }
func delRange(lo, hi string) op {
	return op{kind: base.KindDeleteRange, key: lo, end: hi}
}

func hashOf(key []byte) uint64 { return base.Hash(key, seed) }

// commit writes the operations under one sequence number, which it returns. Range
// tombstones come first in a commit, as the engine arranges it.
func (w *world) commit(ops ...op) base.SeqNum {
	w.s.Lock()
	defer w.s.Unlock()
	horizon := w.horizon()
	w.seq++
	for _, o := range ops {
		w.model.apply(o, w.seq)
		if o.kind == base.KindDeleteRange {
			w.env.Memory.Add(w.s.DeleteRange(base.RangeTombstone{
				Start: []byte(o.key), End: []byte(o.end), Seq: w.seq,
			}))
			continue
		}
		e := o.entry(w.seq)
		w.env.Memory.Add(w.s.Put(&e, hashOf(e.Key), horizon))
	}
	return w.seq
}

func (o op) entry(seq base.SeqNum) base.Entry {
	e := base.Entry{Key: []byte(o.key), Seq: seq, Kind: o.kind, Expiry: o.expiry}
	if o.kind != base.KindDelete {
		e.Value = []byte(o.value)
	}
	return e
}

func (h *history) apply(o op, seq base.SeqNum) {
	if o.kind == base.KindDeleteRange {
		h.ranges = append(h.ranges, base.RangeTombstone{
			Start: []byte(o.key), End: []byte(o.end), Seq: seq,
		})
		return
	}
	list := h.versions[o.key]
	if n := len(list); n > 0 && list[n-1].Seq == seq {
		list = list[:n-1]
	}
	h.versions[o.key] = append(list, o.entry(seq))
}

// newest returns the newest version of key at snap, whatever it is, and the newest
// range tombstone over it.
func (h *history) newest(
	key string, snap base.SeqNum,
) (e base.Entry, cover base.SeqNum, found bool) {
	for _, t := range h.ranges {
		cover = max(cover, stripe.CoverSeq(&t, []byte(key), snap))
	}
	for _, v := range slices.Backward(h.versions[key]) {
		if v.Seq <= snap {
			return v, cover, true
		}
	}
	return e, cover, false
}

// live returns what a reader at snap must see of key.
func (h *history) live(key string, snap base.SeqNum) (base.Entry, bool) {
	e, cover, found := h.newest(key, snap)
	return e, found && e.Seq >= cover && e.Live(nowMs)
}

// rows renders the live items of [lo, hi) at snap, in order; hi "" means no bound.
func (h *history) rows(lo, hi string, snap base.SeqNum, reverse bool) []string {
	var rows []string
	for _, k := range slices.Sorted(maps.Keys(h.versions)) {
		if e, found := h.live(k, snap); found && k >= lo && (hi == "" || k < hi) {
			rows = append(rows, row(&e))
		}
	}
	if reverse {
		slices.Reverse(rows)
	}
	return rows
}

func row(e *base.Entry) string { return fmt.Sprintf("%s=%s@%d", e.Key, e.Value, e.Seq) }

// horizon is the lowest number at which anybody reads, now or later.
func (w *world) horizon() base.SeqNum {
	low := w.seq
	for _, s := range w.snaps {
		low = min(low, s)
	}
	return low
}

func (w *world) snapshot() base.SeqNum {
	w.snaps = append(w.snaps, w.seq)
	return w.seq
}

func (w *world) releaseSnapshot(seq base.SeqNum) {
	i := slices.Index(w.snaps, seq)
	w.snaps = slices.Delete(w.snaps, i, i+1)
}

func (w *world) retention() stripe.Retention {
	snaps := slices.Clone(w.snaps)
	slices.Sort(snaps)
	return stripe.Retention{Snapshots: slices.Compact(snaps), Horizon: w.seq, NowMs: nowMs}
}

func (w *world) freeze() bool {
	w.s.Lock()
	defer w.s.Unlock()
	return w.s.Freeze()
}

// startFlush writes the frozen memtables; install ends it. It returns nil if nothing
// is frozen.
func (w *world) startFlush() (*stripe.Output, error) {
	w.lastRun++
	return w.s.Flush(ctx, &w.b, w.retention(), w.lastRun)
}

// startCompaction merges the runs [lo, hi).
func (w *world) startCompaction(lo, hi int) (*stripe.Output, error) {
	v := w.s.Acquire()
	defer v.Release()
	w.lastRun++
	plan := compaction.Plan{Lo: lo, Hi: hi, Bottom: hi == len(v.Runs), Reason: w.reason}
	return w.s.Compact(ctx, &w.b, v, plan, w.retention(), w.lastRun)
}

// install makes an output durable and part of the stripe, and keeps the list that a
// manifest would have.
func (w *world) install(o *stripe.Output) error {
	if err := o.Sync(); err != nil {
		return errors.Join(err, stripe.Discard(o))
	}
	at := 0
	if len(o.Replaced) > 0 {
		at = slices.IndexFunc(w.runs, func(r *manifest.Run) bool {
			return r.ID == o.Replaced[0].ID
		})
	}
	w.runs = slices.Delete(w.runs, at, at+len(o.Replaced))
	if o.Run != nil {
		w.runs = slices.Insert(w.runs, at, o.Run)
	}
	w.s.Install(o)
	return w.failed
}

// flush writes all memtables to a run.
func (w *world) flush() {
	w.t.Helper()
	w.freeze()
	o, err := w.startFlush()
	ok(w.t, err)
	if o != nil {
		ok(w.t, w.install(o))
	}
}

func (w *world) compact(lo, hi int) {
	w.t.Helper()
	o, err := w.startCompaction(lo, hi)
	ok(w.t, err)
	ok(w.t, w.install(o))
}

// get returns what Get shows of key at snap, as row does; "" if nothing.
func (w *world) get(key string, snap base.SeqNum) (string, error) {
	e := base.Entry{}
	found, err := w.s.Get([]byte(key), hashOf([]byte(key)), snap, &e)
	if err != nil || !found || !e.Live(nowMs) {
		return "", err
	}
	e.Key = []byte(key)
	return row(&e), nil
}

// checkGets compares Get of every key ever written, and of all at once, with the model.
func (w *world) checkGets(snap base.SeqNum) {
	w.t.Helper()
	var ls []base.Lookup
	var wanted []string
	for k := range w.model.versions {
		want := ""
		if e, live := w.model.live(k, snap); live {
			want = row(&e)
		}
		got, err := w.get(k, snap)
		ok(w.t, err)
		if got != want {
			w.t.Fatalf("get %q at %d: %q, want %q", k, snap, got, want)
		}
		ls = append(ls, base.Lookup{Key: []byte(k), Hash: hashOf([]byte(k))})
		wanted = append(wanted, want)
	}
	var b stripe.Batch
	b.Add(w.s, 0, len(ls))
	ok(w.t, b.Get(ls, snap))
	for i := range ls {
		l, got := &ls[i], ""
		e := base.Entry{Key: l.Key, Value: l.Value, Seq: l.Seq, Expiry: l.Expiry, Kind: l.Kind}
		if l.Found && e.Live(nowMs) {
			got = row(&e)
		}
		if !l.Done || got != wanted[i] {
			w.t.Fatalf("get %q in a batch at %d: %q, want %q", l.Key, snap, got, wanted[i])
		}
	}
}

func bounds(lo, hi string, snap base.SeqNum, reverse bool) stripe.Bounds {
	b := stripe.Bounds{Lo: []byte(lo), Snap: snap, Reverse: reverse}
	if hi != "" {
		b.Hi = []byte(hi)
	}
	return b
}

// stepper moves over the rows of a cursor one by one.
type stepper struct {
	stripe.Cursor
	rows []base.Entry // rows[0] is the one that it stands on
}

func (c *stepper) Open(s *stripe.Stripe, b stripe.Bounds) error {
	return c.OpenWith(s, b, nil)
}

func (c *stepper) OpenWith(s *stripe.Stripe, b stripe.Bounds, overlay *memtable.Table) error {
	c.rows = nil
	return c.Add(s, &b, overlay)
}

func (c *stepper) Next() bool {
	if c.rows = c.rows[min(1, len(c.rows)):]; len(c.rows) == 0 {
		c.rows = c.Rows()
	}
	return len(c.rows) > 0
}

func (c *stepper) Entry() *base.Entry { return &c.rows[0] }

// rest reads a cursor to its end.
func rest(c *stepper) ([]string, error) {
	var rows []string
	for c.Next() {
		if e := c.Entry(); e.Live(nowMs) {
			rows = append(rows, row(e))
		} else if e.Kind == base.KindDelete {
			return rows, fmt.Errorf("cursor shows the tombstone of %q", e.Key)
		}
	}
	if c.Next() {
		return rows, errors.New("cursor goes on after its end")
	}
	return rows, c.Err()
}

// scan reads [lo, hi) with a fresh cursor.
func (w *world) scan(b stripe.Bounds, overlay *memtable.Table) ([]string, error) {
	var c stepper
	defer c.Close()
	if err := c.OpenWith(w.s, b, overlay); err != nil {
		return nil, err
	}
	return rest(&c)
}

// checkScan compares a scan, alone and as one of many, with the model.
func (w *world) checkScan(lo, hi string, snap base.SeqNum, reverse bool) {
	w.t.Helper()
	want := w.model.rows(lo, hi, snap, reverse)
	for _, ahead := range []int{0, 1} {
		b := bounds(lo, hi, snap, reverse)
		b.ReadAheadBytes = ahead
		got, err := w.scan(b, nil)
		ok(w.t, err)
		if !slices.Equal(got, want) {
			w.t.Fatalf("scan [%q, %q) at %d, reverse %v, read ahead %d:\n got %q\nwant %q",
				lo, hi, snap, reverse, ahead, got, want)
		}
	}
	if !reverse {
		w.checkKnown(lo, hi, snap, want)
	}
}

// checkAll compares everything at every registered snapshot and the present.
func (w *world) checkAll() {
	w.t.Helper()
	for _, snap := range append(slices.Clone(w.snaps), w.seq) {
		w.checkGets(snap)
		w.checkScan("", "", snap, false)
		w.checkScan("", "", snap, true)
	}
}

// onDisk returns the names of the files in the directory.
func (w *world) onDisk() []string {
	names, err := w.fs.List("db")
	ok(w.t, err)
	return names
}

// viewFiles returns the names of the files of a view, sorted.
func viewFiles(v *stripe.View) []string {
	var names []string
	for _, r := range v.Runs {
		for _, f := range r.Files {
			names = append(names, fileNames(f.Meta)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// fileNames returns the names of an SST and of the value files that it needs.
func fileNames(m *base.FileMeta) []string {
	names := []string{m.Name()}
	for _, v := range m.Values {
		names = append(names, base.ValueName(m.Stripe, v.Num))
	}
	return names
}

// checkFiles compares the directory with the current view plus the files that pinned
// views have.
func (w *world) checkFiles(pinned ...string) {
	w.t.Helper()
	want := append(viewFiles(w.s.View()), pinned...)
	slices.Sort(want)
	want = slices.Compact(want)
	if got := w.onDisk(); !slices.Equal(got, want) {
		w.t.Fatalf("files are %v, want %v", got, want)
	}
}

// shape describes memtables and runs.
func (w *world) shape() string {
	var b strings.Builder
	v := w.s.View()
	describe := func(name string, t *memtable.Table) {
		fmt.Fprintf(&b, "%s: %d keys, %d range tombstones\n", name, t.Len(),
			len(t.RangeTombstones(nil, base.MaxSeqNum)))
	}
	describe("active", v.Active)
	for _, t := range v.Frozen {
		describe("frozen", t)
	}
	for _, r := range v.Runs {
		fmt.Fprintf(&b, "run %d:", r.ID)
		for _, f := range r.Files {
			m := f.Meta
			fmt.Fprintf(&b, " %s %d entries", m.Name(), m.Entries)
			if m.Entries > 0 {
				fmt.Fprintf(&b, " %s..%s", m.Smallest, m.Largest)
			}
			if m.RangeTombstones > 0 {
				fmt.Fprintf(&b, " %d ranges", m.RangeTombstones)
			}
			b.WriteString(";")
		}
		b.WriteString("\n")
	}
	return strings.ReplaceAll(b.String(), ";\n", "\n")
}

// reopen closes the stripe and opens it with what a manifest would know. Requires:
// nothing is in memtables.
func (w *world) reopen() {
	w.s.Close()
	w.env.Memory.Store(0)
	w.s = new(stripe.Stripe)
	w.s.Init(stripeID, &w.env, w.runs)
}
