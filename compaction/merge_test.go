package compaction_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/compaction"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
	"github.com/kstonedb/kstone/internal/testutil"
)

// sliceSource is a cursor.Source over a slice. Like a real one it reuses the memory
// of its keys.
type sliceSource struct {
	entries []base.Entry
	e       [1]base.Entry
	key     []byte
	failAt  int // entries before the error, if err is set
	n       int
	err     error
}

func (s *sliceSource) Rows() []base.Entry {
	for i := range s.key {
		s.key[i] = '!'
	}
	if s.n >= len(s.entries) || (s.err != nil && s.n >= s.failAt) {
		return nil
	}
	s.e[0] = s.entries[s.n]
	s.key = append(s.key[:0], s.e[0].Key...)
	s.e[0].Key = s.key
	s.n++
	return s.e[:]
}

func (s *sliceSource) Err() error {
	if s.err != nil && s.n >= s.failAt {
		return s.err
	}
	return nil
}

// testRun is a run in memory.
type testRun struct {
	entries []base.Entry // sorted as a source
	ranges  []base.RangeTombstone
}

// history is a random stripe: runs newest first, and what may look at it.
type history struct {
	runs    []testRun
	snaps   []base.SeqNum
	horizon base.SeqNum
	last    base.SeqNum
	now     int64
}

func (h *history) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "snapshots %v horizon %d now %d\n", h.snaps, h.horizon, h.now)
	for _, r := range h.runs {
		fmt.Fprintf(&b, "run: %s\n", r)
	}
	return b.String()
}

func (r testRun) String() string {
	var b strings.Builder
	for _, e := range r.entries {
		fmt.Fprintf(&b, "%s@%d:%s", e.Key, e.Seq, e.Kind)
		if e.Kind != base.KindDelete {
			fmt.Fprintf(&b, "=%s", e.Value)
		}
		if e.Expiry != 0 {
			fmt.Fprintf(&b, "!%d", e.Expiry)
		}
		b.WriteByte(' ')
	}
	for _, t := range r.ranges {
		fmt.Fprintf(&b, "[%s,%s)@%d ", t.Start, t.End, t.Seq)
	}
	return strings.TrimSpace(b.String())
}

var testKeys = []string{"a", "aa", "b", "ba", "c", "common-prefix-1", "common-prefix-2", "d"}

func randomHistory(r *rand.Rand) *history {
	h := &history{now: 100}
	for range 1 + r.IntN(4) {
		run := randomRun(r, &h.last)
		h.runs = append([]testRun{run}, h.runs...)
	}
	h.horizon = base.SeqNum(r.Uint64N(uint64(h.last) + 2))
	for range r.IntN(4) {
		h.snaps = append(h.snaps, base.SeqNum(r.Uint64N(uint64(h.last)+2)))
	}
	slices.Sort(h.snaps)
	return h
}

func randomRun(r *rand.Rand, last *base.SeqNum) (run testRun) {
	n := 0
	for range 1 + r.IntN(8) {
		*last++
		for range 1 + r.IntN(3) {
			n++
			key := []byte(testKeys[r.IntN(len(testKeys))])
			e := base.Entry{Key: key, Seq: *last, Kind: base.KindPut}
			e.Value = fmt.Appendf(nil, "%d.%d", *last, n)
			switch r.IntN(8) {
			case 0, 1:
				e.Kind, e.Value = base.KindDelete, nil
			case 2:
				e.Kind, e.Expiry = base.KindPutTTL, 50+r.Int64N(200)
			case 3:
				end := []byte(testKeys[r.IntN(len(testKeys))])
				if bytes.Compare(key, end) < 0 {
					t := base.RangeTombstone{Start: key, End: end, Seq: *last}
					run.ranges = append(run.ranges, t)
				}
				continue
			}
			// Within a commit the later write shows first.
			run.entries = append([]base.Entry{e}, run.entries...)
		}
	}
	slices.SortStableFunc(run.entries, func(a, b base.Entry) int {
		return cmp.Or(bytes.Compare(a.Key, b.Key), cmp.Compare(b.Seq, a.Seq))
	})
	return run
}

// get is the model of a read at snapshot snap: "" for nothing.
func get(runs []testRun, key string, snap base.SeqNum, now int64) string {
	var newest *base.Entry
	var cover base.SeqNum
	for i := range runs {
		for j := range runs[i].entries {
			e := &runs[i].entries[j]
			if string(e.Key) == key && e.Seq <= snap && (newest == nil || e.Seq > newest.Seq) {
				newest = e
			}
		}
		for _, t := range runs[i].ranges {
			if string(t.Start) <= key && key < string(t.End) && t.Seq <= snap {
				cover = max(cover, t.Seq)
			}
		}
	}
	if newest == nil || newest.Seq < cover || !newest.Live(now) {
		return ""
	}
	return string(newest.Value)
}

func (h *history) views() []base.SeqNum {
	v := slices.Clone(h.snaps)
	for s := h.horizon; s <= h.last+1; s++ {
		v = append(v, s)
	}
	return v
}

// merge merges runs lo to hi and returns the result.
func (h *history) merge(t *testing.T, lo, hi int, bottom bool) testRun {
	t.Helper()
	o := compaction.MergeOptions{
		Snapshots: h.snaps, Horizon: h.horizon, Bottom: bottom, NowMs: h.now,
	}
	var sources []cursor.Source
	for _, r := range h.runs[lo:hi] {
		sources = append(sources, &sliceSource{entries: r.entries})
		o.RangeTombstones = append(o.RangeTombstones, r.ranges...)
	}
	m := compaction.NewMerge(sources, o)
	var out testRun
	for m.Next() {
		e := *m.Entry()
		e.Key = bytes.Clone(e.Key)
		out.entries = append(out.entries, e)
	}
	ok(t, m.Err())
	out.ranges = m.RangeTombstones()
	return out
}

// What is visible does not change by merging any neighbouring runs, at the bottom
// or not, at any snapshot, now or later; and what no snapshot can see is gone.
//
// Promise (reads and writes): Merging changes nothing that any snapshot sees, and drops what
// nobody sees. Also `TestMergeRepeatedly` in `compaction`.
func TestMergeAgainstModel(t *testing.T) {
	first := testutil.Seed(t)
	for i := range uint64(6000) {
		seed := first + i
		r := rand.New(rand.NewPCG(seed, 7))
		h := randomHistory(r)
		lo := r.IntN(len(h.runs))
		hi := lo + 1 + r.IntN(len(h.runs)-lo)
		bottom := hi == len(h.runs) && r.IntN(4) > 0
		out := h.merge(t, lo, hi, bottom)
		after := slices.Concat(h.runs[:lo], []testRun{out}, h.runs[hi:])
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("seed %d: merge [%d, %d) bottom %t: %s\n%sresult: %s",
				seed, lo, hi, bottom, fmt.Sprintf(format, args...), h, out)
		}
		for _, snap := range h.views() {
			for _, key := range testKeys {
				for _, now := range []int64{h.now, h.now + 70, h.now + 1000} {
					want, got := get(h.runs, key, snap, now), get(after, key, snap, now)
					if got != want {
						fail("%s at %d, time %d: got %q, want %q", key, snap, now, got, want)
					}
				}
			}
		}
		if why := h.needless(out, bottom); why != "" {
			fail("%s", why)
		}
	}
}

// needless says which part of a merge's output should not be there.
func (h *history) needless(out testRun, bottom bool) string {
	apart := func(older, newer base.SeqNum) bool { // some view sees older and not newer
		return slices.ContainsFunc(h.views(), func(s base.SeqNum) bool {
			return older <= s && s < newer
		})
	}
	oldest := h.horizon
	if len(h.snaps) > 0 {
		oldest = min(oldest, h.snaps[0])
	}
	for i, e := range out.entries {
		next := base.Entry{}
		if i+1 < len(out.entries) {
			next = out.entries[i+1]
		}
		same := bytes.Equal(e.Key, next.Key)
		switch {
		case next.Key != nil && bytes.Compare(e.Key, next.Key) > 0, same && e.Seq <= next.Seq:
			return fmt.Sprintf("%s@%d and the next are not in order", e.Key, e.Seq)
		case same && !apart(next.Seq, e.Seq):
			return fmt.Sprintf("%s@%d hides @%d from everyone", e.Key, e.Seq, next.Seq)
		case e.Kind == base.KindPutTTL && e.Expiry <= h.now:
			return fmt.Sprintf("%s@%d has expired", e.Key, e.Seq)
		case bottom && e.Kind == base.KindDelete && !same:
			return fmt.Sprintf("tombstone %s@%d hides nothing", e.Key, e.Seq)
		}
		for _, t := range out.ranges {
			in := bytes.Compare(t.Start, e.Key) <= 0 && bytes.Compare(e.Key, t.End) < 0
			if in && e.Seq < t.Seq && !apart(e.Seq, t.Seq) {
				return fmt.Sprintf("%s@%d is deleted for everyone", e.Key, e.Seq)
			}
		}
	}
	for i, t := range out.ranges {
		if bottom && t.Seq <= oldest {
			return fmt.Sprintf("range tombstone @%d hides nothing", t.Seq)
		}
		if i > 0 && bytes.Compare(out.ranges[i-1].Start, t.Start) > 0 {
			return "range tombstones are not in order"
		}
	}
	return ""
}

// A merged run merged again, after snapshots have gone, gives what is visible to
// those that are left.
func TestMergeRepeatedly(t *testing.T) {
	first := testutil.Seed(t)
	for i := range uint64(1500) {
		seed := first + i
		r := rand.New(rand.NewPCG(seed, 8))
		h := randomHistory(r)
		before := slices.Clone(h.runs)
		for len(h.runs) > 1 || len(h.snaps) > 0 {
			lo := r.IntN(len(h.runs))
			hi := lo + 1 + r.IntN(len(h.runs)-lo)
			out := h.merge(t, lo, hi, hi == len(h.runs))
			h.runs = slices.Concat(h.runs[:lo], []testRun{out}, h.runs[hi:])
			if len(h.snaps) > 0 && r.IntN(2) == 0 {
				h.snaps = slices.Delete(h.snaps, 0, 1)
			}
			h.horizon = max(h.horizon, base.SeqNum(r.Uint64N(uint64(h.last)+2)))
			for _, snap := range h.views() {
				for _, key := range testKeys {
					want, got := get(before, key, snap, h.now), get(h.runs, key, snap, h.now)
					if got != want {
						t.Fatalf("seed %d: %s at %d: got %q, want %q\n%s",
							seed, key, snap, got, want, h)
					}
				}
			}
		}
		h.horizon = h.last + 1
		out := h.merge(t, 0, len(h.runs), true)
		if len(out.ranges) > 0 {
			t.Fatalf("seed %d: range tombstones left at the end: %s", seed, out)
		}
		for _, e := range out.entries {
			seen := get(before, string(e.Key), h.last, h.now)
			if e.Kind == base.KindDelete || seen == "" {
				t.Fatalf("seed %d: left at the end: %s", seed, out)
			}
		}
	}
}

// Promise (reads and writes): `Item.Version` never changes without a write.
func TestKeepSeqs(t *testing.T) {
	h := &history{horizon: 9, runs: []testRun{{entries: puts(5, "a")}}}
	out := h.merge(t, 0, 1, true)
	if out.entries[0].Seq != 5 {
		t.Errorf("got %s", out)
	}
}

// Of two entries with the same key and sequence number the first source's wins, and
// within a source the first one.
func TestFirstOfEqualsWins(t *testing.T) {
	source := func(values ...string) cursor.Source {
		s := &sliceSource{}
		for _, v := range values {
			s.entries = append(s.entries, base.Entry{
				Key: []byte("k"), Seq: 5, Kind: base.KindPut, Value: []byte(v),
			})
		}
		return s
	}
	for n := range 5 {
		sources := []cursor.Source{source("first", "second")}
		for range n {
			sources = append(sources, source("other"))
		}
		m := compaction.NewMerge(sources, compaction.MergeOptions{})
		if !m.Next() || string(m.Entry().Value) != "first" || m.Next() || m.Err() != nil {
			t.Errorf("%d sources: got %s, %v", n+1, m.Entry().Value, m.Err())
		}
	}
}

func puts(seq base.SeqNum, keys ...string) (es []base.Entry) {
	for _, k := range keys {
		es = append(es, base.Entry{Key: []byte(k), Seq: seq, Kind: base.KindPut})
	}
	return es
}

func TestMergeStopsAtError(t *testing.T) {
	cause := errors.New("input/output error")
	for at := range 3 {
		bad := &sliceSource{entries: puts(1, "b", "d", "f"), failAt: at, err: cause}
		m := compaction.NewMerge([]cursor.Source{
			&sliceSource{entries: puts(2, "a", "c", "e", "g")}, bad,
		}, compaction.MergeOptions{})
		var got []string
		for m.Next() {
			got = append(got, string(m.Entry().Key))
		}
		if !errors.Is(m.Err(), cause) {
			t.Errorf("error after %d entries: %v", at, m.Err())
		}
		want := []string{"a", "b", "c", "d", "e"}
		if !slices.Equal(got, want[:len(got)]) || len(got) > 2*at {
			t.Errorf("error after %d entries: got %v before it", at, got)
		}
		if m.Next() {
			t.Error("goes on after an error")
		}
	}
}

func TestMergeRefusesDisorder(t *testing.T) {
	for name, es := range map[string][]base.Entry{
		"keys":     puts(1, "b", "a"),
		"versions": slices.Concat(puts(1, "a"), puts(2, "a")),
	} {
		sources := []cursor.Source{&sliceSource{entries: es}}
		m := compaction.NewMerge(sources, compaction.MergeOptions{})
		n := 0
		for m.Next() {
			n++
		}
		if m.Err() == nil || n != 1 {
			t.Errorf("%s: %d entries, error %v", name, n, m.Err())
		}
	}
}

func TestMergeOfNothing(t *testing.T) {
	for n := range 3 {
		var sources []cursor.Source
		for range n {
			sources = append(sources, &sliceSource{})
		}
		m := compaction.NewMerge(sources, compaction.MergeOptions{Bottom: true})
		for range 2 { // also past the end
			if m.Next() || m.Err() != nil {
				t.Error("entries out of nothing")
			}
		}
	}
}

// batches is a cursor.Source that returns several rows at once.
type batches [][]base.Entry

func (b *batches) Rows() (rows []base.Entry) {
	if len(*b) > 0 {
		rows, *b = (*b)[0], (*b)[1:]
	}
	return rows
}

func (b *batches) Err() error { return nil }

// TestMergeResults shows entries and what a merge at the bottom, or above it, makes of them, whole
// or in batches of each size.
func TestMergeResults(t *testing.T) {
	put := func(key string, seq base.SeqNum) base.Entry {
		return base.Entry{Key: []byte(key), Seq: seq, Kind: base.KindPut, Value: []byte("v")}
	}
	gone := func(key string, seq base.SeqNum) base.Entry {
		return base.Entry{Key: []byte(key), Seq: seq, Kind: base.KindDelete}
	}
	ttl := func(key string, seq base.SeqNum, expiry int64) base.Entry {
		e := put(key, seq)
		e.Kind, e.Expiry = base.KindPutTTL, expiry
		return e
	}
	type entries = []base.Entry
	ranges := []base.RangeTombstone{{Start: []byte(""), End: []byte("b"), Seq: 15}}
	for _, c := range []struct {
		in           entries
		ranges       []base.RangeTombstone
		upper, lower string
	}{
		{entries{put("", 8), put("", 7)}, nil, "@8:put=v", "@8:put=v"},
		{entries{put("", 12), put("b", 8)}, ranges, "b@8:put=v [,b)@15", "b@8:put=v [,b)@15"},
		{entries{put("", 16), put("a", 12)}, ranges, "@16:put=v [,b)@15", "@16:put=v [,b)@15"},
		{entries{ttl("a", 8, 100), ttl("b", 8, 101)}, nil,
			"a@8:delete b@8:put-ttl=v!101", "b@8:put-ttl=v!101"},
		{entries{ttl("a", 20, 100), put("a", 8)}, nil,
			"a@20:delete a@8:put=v", "a@20:delete a@8:put=v"},
		{entries{gone("a", 20), gone("a", 15), put("a", 9), put("b", 8)}, nil,
			"a@20:delete a@15:delete a@9:put=v b@8:put=v",
			"a@20:delete a@15:delete a@9:put=v b@8:put=v"},
		{entries{gone("a", 20), gone("a", 15), gone("a", 9), put("b", 20), put("c", 10)}, nil,
			"a@20:delete a@15:delete a@9:delete b@20:put=v c@10:put=v", "b@20:put=v c@10:put=v"},
		{entries{put("a", 20), gone("a", 12), put("a", 11), put("a", 10), put("a", 9)}, nil,
			"a@20:put=v a@12:delete a@10:put=v", "a@20:put=v a@12:delete a@10:put=v"},
		{entries{put("a", 31), put("a", 30), put("a", 29)}, nil,
			"a@31:put=v a@30:put=v", "a@31:put=v a@30:put=v"},
	} {
		for size := 1; size <= len(c.in); size++ {
			for bottom, want := range map[bool]string{false: c.upper, true: c.lower} {
				source := batches(slices.Collect(slices.Chunk(c.in, size)))
				m := compaction.NewMerge([]cursor.Source{&source}, compaction.MergeOptions{
					Snapshots: []base.SeqNum{10, 19}, Horizon: 30, Bottom: bottom, NowMs: 100,
					RangeTombstones: c.ranges,
				})
				var out testRun
				for m.Next() {
					e := *m.Entry()
					e.Key = bytes.Clone(e.Key)
					out.entries = append(out.entries, e)
				}
				out.ranges = m.RangeTombstones()
				if got := out.String(); got != want || m.Err() != nil {
					t.Errorf("%s in batches of %d, bottom %t: got %q, %v, want %q",
						testRun{entries: c.in}, size, bottom, got, m.Err(), want)
				}
				for _, e := range out.entries {
					if e.Kind != base.KindPutTTL && e.Expiry != 0 ||
						e.Kind == base.KindDelete && e.Value != nil {
						t.Errorf("%+v has an expiry or a value", e)
					}
				}
			}
		}
	}
}

// TestConcatAll: every source has its turn, and a single one is returned as it is.
func TestConcatAll(t *testing.T) {
	for n := range 5 {
		var sources []cursor.Source
		want := ""
		for i := range n {
			key := string(rune('a' + i))
			sources = append(sources, &sliceSource{entries: puts(1, key)})
			want += key
		}
		c, got := compaction.Concat(sources...), ""
		if n == 1 && c != sources[0] {
			t.Error("a single source is wrapped")
		}
		for e := range cursor.All(c) {
			got += string(e.Key)
		}
		if got != want || c.Err() != nil {
			t.Errorf("got %q, want %q: %v", got, want, c.Err())
		}
	}
}

func TestConcat(t *testing.T) {
	cause := errors.New("input/output error")
	c := compaction.Concat(&sliceSource{entries: puts(1, "a", "b")}, &sliceSource{},
		&sliceSource{entries: puts(1, "c", "d"), failAt: 1, err: cause},
		&sliceSource{entries: puts(1, "e")})
	if c.Err() != nil {
		t.Errorf("error before the start: %v", c.Err())
	}
	var got string
	for e := range cursor.All(c) {
		got += string(e.Key)
	}
	if got != "abc" || !errors.Is(c.Err(), cause) || len(c.Rows()) > 0 {
		t.Errorf("got %q, %v", got, c.Err())
	}
	if c := compaction.Concat(); len(c.Rows()) > 0 || c.Err() != nil {
		t.Error("entries out of nothing")
	}
}
