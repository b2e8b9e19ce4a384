package keyset_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/zonemap/keyset"
)

// member is a segment of a set, and how it is opened and checked.
type member struct {
	*crafted
	cold bool
}

// asked is a set, what it has answered for and what it should have counted. Requires, for the
// counters: its filters are not interleaved.
type asked struct {
	set     *keyset.Set
	members []member
	exact   bool
	has     map[*keyset.Segment]func(key uint64) bool // what CheckKeys answers
	segs    []*keyset.Segment
	want    keyset.Stats
}

// even is what the checked data has: about half of what passes the filter.
func even(number int) func(uint64) bool {
	return func(key uint64) bool { return (key*0x9e3779b97f4a7c15>>40+uint64(number))&1 == 0 }
}

func newAsked(t *testing.T, exact bool, memory int64, members ...member) *asked {
	t.Helper()
	a := &asked{members: members, exact: exact, has: map[*keyset.Segment]func(uint64) bool{}}
	for i, m := range members {
		seg := m.open(t, m.cold)
		a.segs = append(a.segs, seg)
		a.has[seg] = even(i)
		a.want.Keys += seg.Len()
		a.want.FilterBytes += seg.FilterBytes()
	}
	a.set = mustSet(t, &keyset.SetOptions{Exact: exact, MemoryBytes: memory,
		CheckKeys: func(seg *keyset.Segment, keys []uint64, present []bool) error {
			for i, k := range keys {
				present[i] = a.has[seg](k)
			}
			return nil
		}}, a.segs...)
	return a
}

// answer returns the answer for a key, and counts what it costs: one filter after the other,
// those of lower zones first.
func (a *asked) answer(key uint64, c *keyset.Stats) bool {
	order := make([]int, 0, len(a.members))
	for i := range a.members {
		if _, ok := a.members[i].zoneAt(key); ok {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(x, y int) int {
		lo, _ := a.members[x].zoneAt(key)
		other, _ := a.members[y].zoneAt(key)
		if lo < other {
			return -1
		} else if lo > other {
			return 1
		}
		return 0
	})
	for _, i := range order {
		m := a.members[i]
		p := &m.parts[0]
		if m.flags&sharded != 0 {
			p = m.shard(key)
		}
		yes := m.contains(be(key))
		if p.kind == 3 {
			c.Probes++
			counted := a.exact || m.bits == 16
			if yes && counted {
				c.Positives++
			}
			if yes && a.exact {
				c.Checked++
				if yes = a.has[a.segs[i]](key); yes {
					c.Confirmed++
				}
			}
		}
		if yes {
			return true
		}
	}
	return false
}

// zoneAt returns where the zone of the segment begins, if the key is in it.
func (m *member) zoneAt(key uint64) (lo uint64, ok bool) {
	lo, hi := base.KeyHead(m.min), base.KeyHead(m.max)
	return lo, lo <= key && key <= hi && len(m.parts) > 0
}

// questionsAbout are keys around and between all borders of zones, and some more.
func (a *asked) questionsAbout(rnd *rand.Rand, perInterval int) (intervals [][]uint64) {
	borders := []uint64{0, math.MaxUint64}
	for _, m := range a.members {
		for _, k := range [][]byte{m.min, m.max} {
			borders = append(borders, base.KeyHead(k))
		}
	}
	slices.Sort(borders)
	borders = slices.Compact(borders)
	for i, lo := range borders[:len(borders)-1] {
		hi := borders[i+1]
		keys := []uint64{lo, lo + 1, hi - 1, hi}
		for range perInterval {
			keys = append(keys, lo+rnd.Uint64N(hi-lo))
		}
		rnd.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		intervals = append(intervals, keys)
	}
	return intervals
}

// check asks about keys in one batch, alone, and for those that are new. Every stride-th
// answer is compared.
func (a *asked) check(t *testing.T, label string, keys []uint64, stride int) {
	t.Helper()
	found := make(keyset.Bitmap, (len(keys)+63)/64+2)
	for i := range found {
		found[i] = 0x5555555555555555 // what is there already does not matter
	}
	ok(t, a.set.ContainsBatch(keys, found))
	for _, w := range found[(len(keys)+63)/64:] {
		if w != 0x5555555555555555 {
			t.Fatalf("%s: bits after those of the batch are written", label)
		}
	}
	for i := 0; i < len(keys); i += stride {
		want := a.answer(keys[i], &a.want)
		if found.Get(i) != want {
			t.Fatalf("%s: key %d of %d, %#x: %v, want %v", label, i, len(keys), keys[i],
				found.Get(i), want)
		}
		if stride > 1 {
			continue
		}
		if one, err := a.set.Contains(keys[i]); err != nil || one != want {
			t.Fatalf("%s: %#x alone: %v, %v, want %v", label, keys[i], one, err, want)
		}
		if one, err := a.set.ContainsBytes(be(keys[i])); err != nil || one != want {
			t.Fatalf("%s: %#x as bytes: %v, %v, want %v", label, keys[i], one, err, want)
		}
	}
	if stride > 1 {
		return
	}
	a.checkNew(t, label, keys)
	asBytes := make([][]byte, len(keys))
	for i, k := range keys {
		asBytes[i] = be(k)
		a.answer(k, &a.want)
	}
	again := make(keyset.Bitmap, len(found))
	copy(again[len(again)-2:], found[len(found)-2:])
	if err := a.set.ContainsBytesBatch(asBytes, again); err != nil || !slices.Equal(again, found) {
		t.Fatalf("%s: keys of bytes get other answers, %v", label, err)
	}
}

func (a *asked) checkNew(t *testing.T, label string, keys []uint64) {
	t.Helper()
	want := []uint64{42}
	for _, k := range keys {
		if !a.answer(k, &a.want) {
			want = append(want, k)
		}
	}
	got, err := a.set.New([]uint64{42}, keys)
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%s: %d keys are new, want %d, %v", label, len(got), len(want), err)
	}
}

// checkAll asks about all intervals, shuffled, in order, interval by interval, and key by key.
func (a *asked) checkAll(t *testing.T, label string, rnd *rand.Rand, perInterval int) {
	t.Helper()
	intervals := a.questionsAbout(rnd, perInterval)
	all := slices.Concat(intervals...)
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	a.check(t, label+" shuffled", all, 1)
	sorted := slices.Sorted(slices.Values(all))
	a.check(t, label+" sorted", sorted, 1)
	for _, keys := range intervals {
		a.check(t, label+" of one interval", keys, 1)
	}
	for _, k := range all[:min(len(all), 80)] {
		a.check(t, label+" of one key", []uint64{k}, 1)
	}
	a.check(t, label+" empty", nil, 1)
}

// kinds are segments of every kind, over the same zone.
func kinds(rnd *rand.Rand, z [2]uint64) map[string]member {
	filter := func(bits byte) *crafted { return randomFilter(rnd, bits, 16, 6, z) }
	salted := filter(8)
	salted.parts[0].salt = 3
	wide := filter(16)
	for range 300 {
		wide.plant(z[0] + rnd.Uint64N(z[1]-z[0]))
	}
	salt := map[int]uint32{0: 1, 2: ^uint32(0), 5: 2}
	bitmap := &crafted{bits: 8, flags: ints, seed: 9, min: be(z[0]), max: be(z[0] + 999)}
	bitmap.parts = []craftedPart{{lo: z[0], hi: z[0] + 999, kind: 2, keys: 300}}
	for range 125 {
		bitmap.parts[0].table = append(bitmap.parts[0].table, byte(rnd.Uint64()))
	}
	dense := &crafted{bits: 8, flags: ints, seed: 9, min: be(z[0] + 500), max: be(z[0] + 1499)}
	dense.parts = []craftedPart{{lo: z[0] + 500, hi: z[0] + 1499, kind: 1, keys: 1000}}
	return map[string]member{
		"filter": {filter(8), false}, "cold filter": {filter(8), true},
		"salted": {salted, false}, "cold salted": {salted, true},
		"wide": {wide, false}, "cold wide": {wide, true},
		"shards":      {randomShards(rnd, 8, 8, 3, z, 8, salt), false},
		"cold shards": {randomShards(rnd, 8, 8, 3, z, 8, salt), true},
		"bitmap":      {bitmap, false}, "cold bitmap": {bitmap, true},
		"range": {dense, false}, "none": {&crafted{bits: 8, flags: ints, seed: 9}, false},
	}
}

// TestAnswersOfOne: a set of one segment of any kind answers as its bytes say, and counts what
// it asks.
func TestAnswersOfOne(t *testing.T) {
	rnd := rand.New(rand.NewPCG(41, 1))
	for label, m := range kinds(rand.New(rand.NewPCG(41, 2)), [2]uint64{1 << 40, 1<<40 + 5000}) {
		for _, exact := range []bool{false, true} {
			a := newAsked(t, exact, 0, m)
			a.checkAll(t, fmt.Sprint(label, ", exact ", exact), rnd, 600)
			a.checkCounts(t, label)
		}
	}
}

func (a *asked) checkCounts(t *testing.T, label string) {
	t.Helper()
	if got := a.set.Stats(); got != a.want {
		t.Errorf("%s, exact %v: the counters are\n%+v, want\n%+v", label, a.exact, got, a.want)
	}
}

// TestAnswersOfMany: sets of segments of all kinds, over one zone, over zones in a row, and
// over zones that overlap, answer as the bytes of their segments say.
func TestAnswersOfMany(t *testing.T) {
	rnd := rand.New(rand.NewPCG(42, 1))
	for label, zone := range map[string]func(i uint64) [2]uint64{
		"one zone": func(uint64) [2]uint64 { return [2]uint64{1 << 40, 1<<40 + 5000} },
		"in a row": func(i uint64) [2]uint64 { return [2]uint64{i * 9000, i*9000 + 5000} },
		"adjacent": func(i uint64) [2]uint64 { return [2]uint64{i * 9000, i*9000 + 8999} },
		"overlaps": func(i uint64) [2]uint64 { return [2]uint64{9000 - i*700, 9500 + i*800} },
		"the ends": func(i uint64) [2]uint64 {
			return [2]uint64{i / 2 << 58, math.MaxUint64 - i%3<<60}
		},
	} {
		for _, exact := range []bool{false, true} {
			var members []member
			names := []string{"filter", "cold filter", "salted", "cold salted", "wide",
				"cold wide", "shards", "cold shards", "bitmap", "range", "none", "cold bitmap"}
			for i, name := range names {
				r := rand.New(rand.NewPCG(43, uint64(i)))
				members = append(members, kinds(r, zone(uint64(i)))[name])
			}
			a := newAsked(t, exact, -1, members...)
			label := fmt.Sprintf("%s, exact %v", label, exact)
			a.checkAll(t, label, rnd, 60)
			a.checkCounts(t, label)
		}
	}
}

// TestBytesInSets: keys of bytes get the answers of the segments, one by one and in batches:
// in segments of integers only keys of eight bytes can be, and a batch of integers after one
// of bytes is one of integers.
func TestBytesInSets(t *testing.T) {
	rnd := rand.New(rand.NewPCG(44, 1))
	z := [2]uint64{1 << 60, 3 << 60}
	for label, m := range kinds(rnd, z) {
		for _, flags := range []byte{ints, 0} {
			c := *m.crafted
			c.flags = c.flags&^ints | flags
			if flags == 0 && c.parts != nil && c.parts[0].kind != 3 {
				continue // for integers only
			}
			for _, set := range []*keyset.Set{
				mustSet(t, nil, c.open(t, m.cold)),
				mustSet(t, nil, c.open(t, m.cold), kinds(rnd, z)["range"].open(t, false)),
			} {
				checkBytes(t, fmt.Sprint(label, ", flags ", flags), set, rnd)
			}
		}
	}
}

func checkBytes(t *testing.T, label string, set *keyset.Set, rnd *rand.Rand) {
	t.Helper()
	var refs []*crafted
	for _, seg := range set.Segments() {
		refs = append(refs, readCrafted(binaryOf(t, seg)))
	}
	contains := func(key []byte) bool {
		return slices.ContainsFunc(refs, func(c *crafted) bool { return c.contains(key) })
	}
	keys := make([][]byte, 2500)
	numbers := make([]uint64, len(keys))
	for i := range keys {
		numbers[i] = 1<<60 + rnd.Uint64N(5000) + rnd.Uint64N(2)<<uint(rnd.IntN(61))
		keys[i] = bytesOf(numbers[i])
	}
	found := keyset.NewBitmap(len(keys))
	for range 2 {
		ok(t, set.ContainsBytesBatch(keys, found))
		for i, k := range keys {
			want := contains(k)
			one, err := set.ContainsBytes(k)
			if err != nil || one != want || found.Get(i) != want {
				t.Fatalf("%s: %x: %v alone, %v in a batch, %v", label, k, one, found.Get(i), err)
			}
		}
		ok(t, set.ContainsBatch(numbers, found))
		for i, k := range numbers {
			if want := contains(be(k)); found.Get(i) != want {
				t.Fatalf("%s: %x is %v", label, k, found.Get(i))
			}
		}
		slices.SortFunc(keys, bytes.Compare)
		slices.Sort(numbers)
	}
}
