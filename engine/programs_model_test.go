package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// progRun is the run of a program: the database, and what it should hold.
type progRun struct {
	set      *progSet
	trace    *[]string
	sabotage string // an operation that the reference forgets; to test the test
	fs       vfs.FS // nil for Options.InMemory
	dir      string
	db       *engine.DB
	opts     engine.Options
	clock    atomic.Int64
	rnd      *rand.Rand // of the operation at hand

	items    progItems
	snaps    []progSnapshot
	props    map[string]string
	unsynced bool // a power cut may lose a commit
	copies   int
}

// progItem is what an item should be. Its version is known once it has been seen.
type progItem struct {
	key     engine.Key
	value   []byte
	expiry  int64
	version uint64
}

// progItems are items by ordered key.
type progItems map[string]*progItem

type progSnapshot struct {
	snap  *engine.Snapshot
	items progItems
}

// run runs the program and returns the first thing that is wrong.
func (s *progSet) run(t testing.TB, program []progOp, trace *[]string) error {
	return newProgRun(t, s, trace).program(program)
}

func newProgRun(t testing.TB, s *progSet, trace *[]string) *progRun {
	r := &progRun{set: s, trace: trace, dir: "db", opts: s.o}
	r.items, r.props = progItems{}, map[string]string{}
	r.clock.Store(1_000_000)
	r.opts.Clock = func() time.Time { return time.UnixMilli(r.clock.Load()) }
	switch s.on {
	case "disk":
		r.fs, r.dir = vfs.OS(), filepath.Join(t.TempDir(), "db")
	case "memory":
		r.opts.InMemory = true
	default:
		r.fs = vfstest.NewCrash()
	}
	return r
}

// progError is what fail ends a program with.
type progError struct{ error }

// fail ends the program.
func (r *progRun) fail(format string, args ...any) {
	panic(progError{fmt.Errorf(format, allShown(args)...)})
}

// no fails if there is an error.
func (r *progRun) no(err error) {
	if err != nil {
		panic(progError{err})
	}
}

// note adds to the description of the operation.
func (r *progRun) note(format string, args ...any) {
	if r.trace != nil {
		n := len(*r.trace) - 1
		(*r.trace)[n] += " " + fmt.Sprintf(format, allShown(args)...)
	}
}

func (r *progRun) program(program []progOp) (err error) {
	at := -1
	defer func() {
		switch p := recover().(type) {
		case nil:
		case progError:
			err = fmt.Errorf("operation %d: %w", at, p.error)
		default:
			err = fmt.Errorf("operation %d: panic: %v\n%s", at, p, debug.Stack())
		}
		if err != nil && r.db != nil { // not closed: the next run must not meet it
			r.closeSnapshots()
			_ = r.db.Close()
		}
	}()
	r.open()
	for i, o := range program {
		at = i
		if r.trace != nil {
			*r.trace = append(*r.trace, fmt.Sprintf("%4d %s", i, o.kind))
		}
		r.rnd = rand.New(rand.NewPCG(o.seed, 0))
		before := r.items
		if o.kind == r.sabotage {
			before = before.clone()
		}
		progActions[o.kind](r)
		if o.kind == r.sabotage {
			r.items = before
		}
	}
	at = len(program)
	r.rnd = rand.New(rand.NewPCG(0, 0))
	r.scanAll(r.items, r.db)
	r.reopen()
	r.verify()
	r.close()
	return nil
}

func (r *progRun) open() {
	var err error
	if r.fs == nil {
		r.db, err = engine.Open("program", &r.opts)
	} else {
		r.db, err = engine.OpenFS(r.fs, r.dir, &r.opts)
	}
	r.no(err)
}

func (r *progRun) closeSnapshots() {
	for _, s := range r.snaps {
		_ = s.snap.Close()
	}
	r.snaps = nil
}

func (r *progRun) close() {
	r.closeSnapshots()
	db := r.db
	r.db = nil
	r.no(db.Close())
	r.unsynced = false
}

// clone copies the items; whether a version is known stays common to both.
func (m progItems) clone() progItems { return maps.Clone(m) }

// chance is true one time in n.
func (r *progRun) chance(n int) bool { return r.rnd.IntN(n) == 0 }

func (r *progRun) drawPart() string { return chooseFrom(r.rnd).part() }

func (r *progRun) drawKey() engine.Key { return chooseFrom(r.rnd).key() }

func (r *progRun) drawValue() []byte {
	n := []int{0, 1, 5, 60, 60, 60, 300, 3000}[r.rnd.IntN(8)]
	if r.chance(100) {
		n = 70_000
	}
	v := bytes.Repeat([]byte{byte(r.rnd.Uint32())}, n)
	if n > 9 {
		copy(v, fmt.Sprint(r.rnd.IntN(1_000_000)))
	}
	return v
}

// drawCondition draws an SK condition and the predicate it stands for.
func (r *progRun) drawCondition() (engine.SKCondition, func(sk []byte) bool) {
	draw := chooseFrom(r.rnd)
	a, b := draw.operand(), draw.operand()
	op := r.rnd.IntN(9)
	conds := []engine.SKCondition{
		engine.SKEqual(a), engine.SKLess(a), engine.SKLessEqual(a), engine.SKGreater(a),
		engine.SKGreaterEqual(a), engine.SKBetween(a, b), engine.SKBeginsWith(a), {}, {},
	}
	orNone := op > 0 && op < 3 && r.chance(2)
	if orNone {
		conds[op] = conds[op].OrNone()
	}
	r.note("condition %d of %q and %q, or none: %v,", op, a, b, orNone)
	return conds[op], func(sk []byte) bool {
		c := bytes.Compare(sk, a)
		holds := []bool{
			c == 0, c < 0, c <= 0, c > 0, c >= 0, c >= 0 && bytes.Compare(sk, b) <= 0,
			bytes.HasPrefix(sk, a), true, true,
		}
		if sk == nil {
			return orNone || op > 6
		}
		return holds[op]
	}
}

func (r *progRun) live(it *progItem) bool {
	return it != nil && (it.expiry == 0 || r.clock.Load() < it.expiry)
}

func (r *progRun) put(items progItems, k engine.Key, v []byte, ttl time.Duration) {
	it := &progItem{key: k, value: v}
	if ttl > 0 {
		it.expiry = r.clock.Load() + max(1, ttl.Milliseconds())
	}
	items[id(k)] = it
}

func (r *progRun) removeRange(items progItems, part string, match func([]byte) bool) {
	maps.DeleteFunc(items, func(_ string, it *progItem) bool {
		return string(it.key.PK) == part && match(it.key.SK)
	})
}

// sorted returns the live items that the predicate accepts.
func (r *progRun) sorted(items progItems, match func(*progItem) bool, reverse bool) []*progItem {
	var out []*progItem
	for _, it := range items {
		if r.live(it) && (match == nil || match(it)) {
			out = append(out, it)
		}
	}
	slices.SortFunc(out, func(a, b *progItem) int { return compareKeys(a.key, b.key) })
	if reverse {
		slices.Reverse(out)
	}
	return out
}

// collect reads a sequence to its end.
func (r *progRun) collect(seq iter.Seq2[engine.Item, error]) (out []engine.Item) {
	for it, err := range seq {
		r.no(err)
		out = append(out, it.Clone())
	}
	return out
}

// same compares what was read with what should be there.
func (r *progRun) same(what string, got []engine.Item, want []*progItem) {
	if len(got) != len(want) {
		r.fail("%s: %d items, want %d\n%v\n%v", what, len(got), len(want), itemKeys(got),
			wantKeys(want))
	}
	for i, it := range got {
		r.sameItem(what, it, want[i])
	}
}

func (r *progRun) sameItem(what string, it engine.Item, want *progItem) {
	switch {
	case compareKeys(it.Key, want.key) != 0:
		r.fail("%s: key %v, want %v", what, it.Key, want.key)
	case !bytes.Equal(it.Value, want.value):
		r.fail("%s: %v has %d bytes %.20q, want %d bytes %.20q", what, it.Key, len(it.Value),
			it.Value, len(want.value), want.value)
	case it.Expiry != want.expiry:
		r.fail("%s: %v expires at %d, want %d", what, it.Key, it.Expiry, want.expiry)
	case want.version == 0:
		want.version = it.Version
	case it.Version != want.version:
		r.fail("%s: %v has version %d, had %d", what, it.Key, it.Version, want.version)
	}
}

func itemKeys(items []engine.Item) (out []string) {
	for _, it := range items {
		out = append(out, fmt.Sprint(shown(it.Key)))
	}
	return out
}

func wantKeys(items []*progItem) (out []string) {
	for _, it := range items {
		out = append(out, fmt.Sprint(shown(it.key)))
	}
	return out
}

// getKey reads one key in one of the ways there are.
func (r *progRun) getKey(items progItems, from engine.Reader, own bool) {
	k := r.drawKey()
	r.note("get %v", k)
	want := items[id(k)]
	there := r.live(want)
	var got []byte
	var err error
	switch r.rnd.IntN(4) {
	case 0:
		got, err = from.Get(k)
	case 1:
		got, err = from.AppendGet([]byte("xx"), k)
		got = got[2:]
	case 2:
		var it engine.Item
		it, err = from.GetItem(k)
		if there && err == nil && !own {
			r.sameItem("item", it, want)
		}
		got = it.Value
	case 3:
		var has bool
		has, err = from.Has(k)
		if has != there {
			r.fail("has %v: %v, want %v", k, has, there)
		}
		r.no(err)
		return
	}
	switch {
	case there && err != nil:
		r.fail("get %v: %v, want %d bytes", k, err, len(want.value))
	case there && !bytes.Equal(got, want.value):
		r.fail("get %v: %d bytes %.20q, want %d bytes %.20q", k, len(got), got, len(want.value),
			want.value)
	case !there && !errors.Is(err, engine.ErrNotFound):
		r.fail("get %v: %d bytes %.20q, %v; want not found", k, len(got), got, err)
	}
}

// scanAll compares everything.
func (r *progRun) scanAll(items progItems, from engine.Reader) {
	s := engine.Scan{Reverse: r.chance(2), Unordered: r.chance(3)}
	r.note("scan reverse %v unordered %v", s.Reverse, s.Unordered)
	got := r.collect(from.Scan(ctx, s))
	if s.Unordered {
		sortItems(got)
		s.Reverse = false
	}
	r.same("scan", got, r.sorted(items, nil, s.Reverse))
}

func sortItems(items []engine.Item) {
	slices.SortFunc(items, func(a, b engine.Item) int { return compareKeys(a.Key, b.Key) })
}
