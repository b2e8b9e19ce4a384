package memtable_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/memtable"
)

var ok = testutil.OK

// put adds a plain value with nothing to trim.
func put(t *memtable.Table, key string, seq base.SeqNum, value string) {
	t.Put([]byte(key), hashOf([]byte(key)), seq, base.KindPut, 0, []byte(value), 0)
}

func get(t *memtable.Table, key string, snap base.SeqNum) (base.Entry, bool) {
	var e base.Entry
	ok := t.Get([]byte(key), hashOf([]byte(key)), snap, &e)
	return e, ok
}

func TestVersions(t *testing.T) {
	tab := memtable.New(memtable.Options{})
	key := []byte("k")
	put(tab, "k", 3, "three")
	tab.Put(key, hashOf(key), 5, base.KindPutTTL, 777, []byte("five"), 0)
	tab.Put(key, hashOf(key), 7, base.KindDelete, 9, []byte("ignored"), 0)
	put(tab, "k", 9, "")
	for _, c := range []struct {
		snap base.SeqNum
		want string
	}{
		{2, "none"},
		{3, `3 put 0 "three" false`},
		{6, `5 put-ttl 777 "five" false`},
		{7, `7 delete 0 "" true`},
		{9, `9 put 0 "" false`},
		{base.MaxSeqNum, `9 put 0 "" false`},
	} {
		got := "none"
		if e, ok := get(tab, "k", c.snap); ok {
			got = fmt.Sprintf("%d %v %d %q %v", e.Seq, e.Kind, e.Expiry, e.Value, e.Value == nil)
		}
		if got != c.want {
			t.Errorf("at %d: got %s, want %s", c.snap, got, c.want)
		}
	}
	if _, ok := get(tab, "kk", 9); ok {
		t.Error("found a key that was never put")
	}
	got := [...]int{
		tab.Len(), tab.Versions(), tab.Tombstones(), int(tab.MinSeq()), int(tab.MaxSeq()),
	}
	if want := [...]int{1, 4, 1, 3, 9}; got != want {
		t.Errorf("keys, versions, tombstones, lowest and highest seq: got %v, want %v", got, want)
	}
}

func TestEmptyTable(t *testing.T) {
	tab := memtable.New(memtable.Options{Prefix: []byte("p")})
	check := func(state string) {
		t.Helper()
		if _, ok := get(tab, "", 9); ok {
			t.Errorf("%s: found a key", state)
		}
		c := tab.NewCursor(9)
		if c.First() || c.Last() || c.SeekGE(nil) || c.SeekLT(nil) || c.Next() || c.Prev() {
			t.Errorf("%s: the cursor found an entry", state)
		}
		if tab.HasRanges() || tab.Len() > 0 || tab.MinSeq() != base.MaxSeqNum || tab.MaxSeq() != 0 {
			t.Errorf("%s: not empty", state)
		}
	}
	check("active")
	src := tab.NewSource()
	if len(src.Rows()) > 0 || src.Err() == nil {
		t.Error("a source of a table that is not frozen works")
	}
	tab.Freeze()
	tab.Freeze()
	check("frozen")
	if src := tab.NewSource(); len(src.Rows()) > 0 || src.Err() != nil {
		t.Errorf("a source of an empty table: %v", src.Err())
	}
	if p := tab.CommonPrefix(); len(p) != 0 {
		t.Errorf("common prefix %q", p)
	}
}

func TestEmptyKeyAndBounds(t *testing.T) {
	tab := memtable.New(memtable.Options{Prefix: []byte("p")})
	for i, k := range []string{"p", "", "q", "o"} {
		put(tab, k, base.SeqNum(i+1), k)
	}
	c := tab.NewCursor(9)
	if !c.First() || len(c.Entry().Key) != 0 {
		t.Error("the empty key is not first")
	}
	if !c.SeekGE(nil) || len(c.Entry().Key) != 0 {
		t.Error("seek to nil does not find the empty key")
	}
	if c.SeekLT(nil) {
		t.Error("there is a key below nil")
	}
}

// TestHandedOutMemory keeps views of keys and values while their table changes and
// is frozen.
func TestHandedOutMemory(t *testing.T) {
	tab := memtable.New(memtable.Options{})
	var keys, values [][]byte
	var want []string
	c := tab.NewCursor(base.MaxSeqNum)
	for i := range 3000 {
		seq := base.SeqNum(i + 1)
		value := fmt.Sprintf("value %d %s", i, bytes.Repeat([]byte("x"), i%7*i))
		tab.Put([]byte("hot"), hashOf([]byte("hot")), seq, base.KindPut, 0, []byte(value), seq-1)
		e, _ := get(tab, "hot", seq)
		if cap(e.Value) != len(e.Value) {
			t.Fatal("an append to the value would write into the table")
		}
		values, want = append(values, e.Value), append(want, value)
		c.First()
		if cap(c.Entry().Key) != len(c.Entry().Key) {
			t.Fatal("an append to the key would write into the table")
		}
		keys = append(keys, c.Entry().Key)
	}
	tab.Freeze()
	for i := range values {
		if string(values[i]) != want[i] || string(keys[i]) != "hot" {
			t.Fatalf("view %d changed", i)
		}
	}
}

// TestHotKey overwrites one key a million times. With a horizon that follows, at
// whatever distance, the chain and the memory must stay bounded.
func TestHotKey(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	for _, lag := range []base.SeqNum{1, 2, 10, 300} {
		tab := memtable.New(memtable.Options{})
		key, value := []byte("hot"), make([]byte, 100)
		hash := hashOf(key)
		most := 0
		for seq := base.SeqNum(1); seq <= 1_000_000; seq++ {
			tab.Put(key, hash, seq, base.KindPut, 0, value, seq-min(lag, seq))
			if seq%997 == 0 {
				most = max(most, tab.Versions())
			}
		}
		if limit := 3*int(lag) + 10; most > limit {
			t.Errorf("lag %d: %d versions, want at most %d", lag, most, limit)
		}
		if limit := int64(lag)*1000 + 400<<10; tab.Bytes() > limit {
			t.Errorf("lag %d: %d bytes held, want at most %d", lag, tab.Bytes(), limit)
		}
		var e base.Entry
		if !tab.Get(key, hash, base.MaxSeqNum, &e) || e.Seq != 1_000_000 {
			t.Errorf("lag %d: newest version is %d", lag, e.Seq)
		}
	}
}

// TestHeldSnapshot overwrites a key while one old snapshot is in use: nothing can be
// cut between, and overwrites must not become slower for it.
func TestHeldSnapshot(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	tab := memtable.New(memtable.Options{})
	key := []byte("hot")
	for seq := base.SeqNum(1); seq <= 300_000; seq++ {
		tab.Put(key, hashOf(key), seq, base.KindPut, 0, nil, min(5, seq-1))
	}
	if e, ok := get(tab, "hot", 5); !ok || e.Seq != 5 {
		t.Errorf("the snapshot's version is gone: found %v, seq %d", ok, e.Seq)
	}
	if n := tab.Versions(); n != 300_000-4 {
		t.Errorf("%d versions", n)
	}
}

// TestSameCommit writes a key over and over in one commit, as a batch may.
func TestSameCommit(t *testing.T) {
	tab := memtable.New(memtable.Options{})
	put(tab, "k", 4, "before")
	value := bytes.Repeat([]byte("x"), 100)
	for i := range 100_000 {
		kind := base.KindPut
		if i%3 == 0 {
			kind = base.KindDelete
		}
		tab.Put([]byte("k"), hashOf([]byte("k")), 5, kind, 0, value, 0)
	}
	put(tab, "k", 5, "last")
	if got := [...]int{tab.Versions(), tab.Tombstones()}; got != [...]int{2, 0} {
		t.Errorf("versions, tombstones: %v", got)
	}
	if tab.Bytes() > 400<<10 {
		t.Errorf("%d bytes held for two versions", tab.Bytes())
	}
	for snap, want := range map[base.SeqNum]string{4: "before", 5: "last", 6: "last"} {
		if e, _ := get(tab, "k", snap); string(e.Value) != want {
			t.Errorf("at %d: %s, want %s", snap, e.Value, want)
		}
	}
}

func TestLargeRecords(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	w := newWorld(memtable.Options{Prefix: []byte("key")})
	sizes := []int{0, 1, 4000, 4096, 16_000, 16_384, 16_385, 60_000, 65_536, 200_000, 1 << 20}
	for round := range 3 {
		for _, n := range sizes {
			w.commit()
			w.put(bytes.Repeat([]byte{'k'}, max(1, min(n, 200_000))), base.KindPut, 0,
				bytes.Repeat([]byte{byte(round)}, sizes[(n+round)%len(sizes)]))
			w.commit()
			w.put([]byte(fmt.Sprint("small", n)), base.KindPutTTL, 5, make([]byte, n))
		}
		w.snapshot()
	}
	w.commit()
	w.put([]byte("largest"), base.KindPut, 0, bytes.Repeat([]byte("64 MiB.."), 8<<20))
	for _, snap := range append(w.snaps, w.seq) {
		ok(t, w.scan(snap))
	}
	ok(t, w.freeze())
}

func TestCommonPrefix(t *testing.T) {
	for _, c := range []struct{ keys, want string }{
		{"a", "a"},
		{"tenant/1 tenant/22 tenant/3", "tenant/"},
		{"a b", ""},
		{"ab abc", "ab"},
	} {
		tab := memtable.New(memtable.Options{})
		for i, k := range bytes.Fields([]byte(c.keys)) {
			put(tab, string(k), base.SeqNum(i+1), "")
		}
		if tab.CommonPrefix() != nil {
			t.Error("a table that is not frozen has a common prefix")
		}
		tab.Freeze()
		if got := tab.CommonPrefix(); string(got) != c.want {
			t.Errorf("%s: got %q, want %q", c.keys, got, c.want)
		}
	}
}

func TestRangeTombstones(t *testing.T) {
	tab := memtable.New(memtable.Options{})
	if tab.HasRanges() || tab.Ranges() != 0 || tab.RangeTombstones(nil, 9) != nil {
		t.Error("an empty table has range tombstones")
	}
	held := tab.Bytes()
	start, end := []byte("a"), []byte("m")
	tab.DeleteRange(base.RangeTombstone{Start: start, End: end, Seq: 4})
	tab.DeleteRange(base.RangeTombstone{Start: end, End: []byte("z"), Seq: 6})
	start[0], end[0] = '?', '?' // the table has its own copy
	if !tab.HasRanges() || tab.Ranges() != 2 || tab.MinSeq() != 4 ||
		tab.MaxSeq() != 6 {
		t.Error("the table does not know of its range tombstones")
	}
	if tab.Bytes() <= held {
		t.Error("range tombstones are not counted in Bytes")
	}
	tab.Freeze()
	show := func(snap base.SeqNum) (s string) {
		for _, rt := range tab.RangeTombstones(make([]base.RangeTombstone, 1), snap) {
			s += fmt.Sprintf("[%s,%s)@%d ", rt.Start, rt.End, rt.Seq)
		}
		return s
	}
	for snap, want := range map[base.SeqNum]string{
		3: "[,)@0 ", 5: "[,)@0 [a,m)@4 ", 6: "[,)@0 [a,m)@4 [m,z)@6 ",
	} {
		if got := show(snap); got != want {
			t.Errorf("at %d: got %s, want %s", snap, got, want)
		}
	}
}

// TestVersionCounts: versions and tombstones that no reader sees are let go, and not counted.
func TestVersionCounts(t *testing.T) {
	tab := memtable.New(memtable.Options{})
	for i, c := range []struct {
		seq        base.SeqNum
		kind       base.Kind
		horizon    base.SeqNum
		versions   int
		tombstones int
	}{
		{1, base.KindDelete, 0, 1, 1}, {1, base.KindDelete, 0, 1, 1}, {2, base.KindDelete, 0, 2, 2},
		{3, base.KindPut, 0, 3, 2}, {3, base.KindDelete, 0, 3, 3}, {3, base.KindPut, 0, 3, 2},
		{4, base.KindPut, 2, 4, 2}, {5, base.KindPut, 4, 2, 0}, {6, base.KindDelete, 4, 3, 1},
		{7, base.KindDelete, 6, 2, 2}, {8, base.KindPut, 7, 2, 1}, {9, base.KindPut, 8, 2, 0},
	} {
		tab.Put([]byte("k"), hashOf([]byte("k")), c.seq, c.kind, 0, nil, c.horizon)
		if got, dead := tab.Versions(), tab.Tombstones(); got != c.versions ||
			dead != c.tombstones {
			t.Errorf("write %d: %d versions, %d tombstones, want %d and %d", i, got, dead,
				c.versions,
				c.tombstones)
		}
	}
}

// TestCoverSeq: the newest range tombstone over a key counts that a reader sees.
func TestCoverSeq(t *testing.T) {
	tab := memtable.New(memtable.Options{})
	if got := tab.CoverSeq([]byte("b"), 9); got != 0 {
		t.Errorf("an empty table covers at %d", got)
	}
	for _, rt := range []struct {
		start, end string
		seq        base.SeqNum
	}{{"b", "d", 4}, {"c", "f", 7}, {"a", "c", 5}, {"c", "d", 6}} {
		tab.DeleteRange(base.RangeTombstone{
			Start: []byte(rt.start), End: []byte(rt.end), Seq: rt.seq,
		})
	}
	for _, c := range []struct {
		key  string
		snap base.SeqNum
		want base.SeqNum
	}{
		{"", 9, 0}, {"a", 9, 5}, {"a", 5, 5}, {"a", 4, 0}, {"b", 9, 5}, {"b", 4, 4}, {"b", 3, 0},
		{"bz", 9, 5}, {"c", 9, 7}, {"c", 7, 7}, {"c", 6, 6}, {"c", 5, 4}, {"d", 9, 7}, {"d", 6, 0},
		{"e", 9, 7}, {"f", 9, 0}, {"g", 9, 0},
	} {
		for range 2 {
			if got := tab.CoverSeq([]byte(c.key), c.snap); got != c.want {
				t.Errorf("%q at %d is covered at %d, want %d", c.key, c.snap, got, c.want)
			}
		}
	}
}

// TestCoverSeqOfMany: of many range tombstones, which are searched, the one is found that a loop
// over them finds, at all snapshots; another reader sees none go.
func TestCoverSeqOfMany(t *testing.T) {
	rng := rand.New(rand.NewPCG(testutil.Seed(t), 1))
	tab := memtable.New(memtable.Options{})
	key := func() []byte { return fmt.Appendf(nil, "%03d", rng.IntN(1000)) }
	var all []base.RangeTombstone
	stop, done := make(chan bool), make(chan base.SeqNum)
	go func() {
		var last base.SeqNum
		for {
			select {
			case <-stop:
				done <- last
				return
			default:
			}
			got := tab.CoverSeq([]byte("5"), base.MaxSeqNum)
			if got < last {
				t.Errorf("covered at %d, then at %d", last, got)
			}
			last = got
		}
	}()
	defer func() { close(stop); <-done }()
	for i := range 3000 {
		rt := base.RangeTombstone{Start: key(), End: key(), Seq: base.SeqNum(i/2 + 1)}
		tab.DeleteRange(rt)
		all = append(all, rt)
		if i%7 > 0 {
			continue
		}
		k, snap := key(), base.SeqNum(rng.IntN(i/2+2))
		if rng.IntN(3) > 0 {
			snap = base.MaxSeqNum
		}
		var want base.SeqNum
		for _, rt := range all {
			if rt.Seq <= snap && bytes.Compare(rt.Start, k) <= 0 && bytes.Compare(k, rt.End) < 0 {
				want = max(want, rt.Seq)
			}
		}
		if got := tab.CoverSeq(k, snap); got != want {
			t.Fatalf("%d range tombstones: %s at %d is covered at %d, want %d", i+1, k, snap, got,
				want)
		}
	}
}

// TestHas: a tombstone is a key, a range tombstone is not.
func TestHas(t *testing.T) {
	for what, c := range map[string]struct {
		fill            func(tab *memtable.Table)
		hasKeys         bool
		ranges, lenKeys int
	}{
		"new":   {func(*memtable.Table) {}, false, 0, 0},
		"a key": {func(tab *memtable.Table) { put(tab, "k", 1, "") }, true, 0, 1},
		"a tombstone": {func(tab *memtable.Table) {
			tab.Put([]byte("k"), hashOf([]byte("k")), 1, base.KindDelete, 0, nil, 0)
		}, true, 0, 1},
		"a range tombstone": {func(tab *memtable.Table) {
			tab.DeleteRange(base.RangeTombstone{End: []byte("k"), Seq: 1})
		}, false, 1, 0},
		"both": {func(tab *memtable.Table) {
			put(tab, "k", 1, "")
			tab.DeleteRange(base.RangeTombstone{End: []byte("k"), Seq: 1})
		}, true, 1, 1},
	} {
		tab := memtable.New(memtable.Options{})
		c.fill(tab)
		if tab.HasKeys() != c.hasKeys || tab.Ranges() != c.ranges ||
			tab.HasRanges() != (c.ranges > 0) || tab.Len() != c.lenKeys {
			t.Errorf("%s: keys %v and %d, %d range tombstones", what, tab.HasKeys(), tab.Len(),
				tab.Ranges())
		}
	}
}

// TestSourceRows: a source delivers sixteen entries at a time, of one key or of many.
func TestSourceRows(t *testing.T) {
	for _, keys := range []int{40, 4} {
		tab := memtable.New(memtable.Options{})
		for i := range 40 {
			put(tab, fmt.Sprint(i%keys), base.SeqNum(i+1), "")
		}
		tab.Freeze()
		src := tab.NewSource()
		n := 0
		for rows := src.Rows(); len(rows) > 0; rows = src.Rows() {
			if n += len(rows); len(rows) != min(keys, 16) && n != 40 {
				t.Errorf("%d keys: %d entries at a time", keys, len(rows))
			}
		}
		if n != 40 || src.Err() != nil || len(src.Rows()) > 0 {
			t.Errorf("%d keys: %d entries, %v", keys, n, src.Err())
		}
	}
}
