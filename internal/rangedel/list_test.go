package rangedel_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/rangedel"
	"github.com/kstonedb/kstone/internal/testutil"
)

func rt(start, end string, seq base.SeqNum) base.RangeTombstone {
	return base.RangeTombstone{Start: []byte(start), End: []byte(end), Seq: seq}
}

func render(ts []base.RangeTombstone) string {
	var b bytes.Buffer
	for _, t := range ts {
		fmt.Fprintf(&b, "[%s,%s)@%d ", t.Start, t.End, t.Seq)
	}
	return string(bytes.TrimSpace(b.Bytes()))
}

func TestBuildFragments(t *testing.T) {
	type list = []base.RangeTombstone
	tests := []struct {
		name string
		in   list
		snap base.SeqNum
		want string
	}{
		{"none", nil, 9, ""},
		{"one", list{rt("b", "d", 5)}, 9, "[b,d)@5"},
		{"newer inside older", list{rt("a", "z", 5), rt("m", "n", 6)}, 9,
			"[a,m)@5 [m,n)@6 [n,z)@5"},
		{"older inside newer", list{rt("a", "z", 6), rt("m", "n", 5)}, 9, "[a,z)@6"},
		{"touching, same commit", list{rt("a", "b", 5), rt("b", "c", 5)}, 9, "[a,c)@5"},
		{"touching, two commits", list{rt("a", "b", 5), rt("b", "c", 6)}, 9,
			"[a,b)@5 [b,c)@6"},
		{"gap", list{rt("c", "d", 5), rt("a", "b", 5)}, 9, "[a,b)@5 [c,d)@5"},
		{"too new for the snapshot", list{rt("a", "z", 5), rt("m", "n", 6)}, 5, "[a,z)@5"},
		{"empty and inverted", list{rt("a", "a", 5), rt("c", "b", 5)}, 9, ""},
		{"all empty", list{rt("a", "a", 5)}, 9, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := rangedel.Build(tt.in, tt.snap)
			if got := render(l.All()); got != tt.want || (l == nil) != (tt.want == "") {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestNilListIsEmpty(t *testing.T) {
	var l *rangedel.List
	w := l.Walk()
	key := []byte("a")
	if l.Len() != 0 || l.All() != nil || l.CoverSeq(key) != 0 || w.CoverSeq(key) != 0 {
		t.Error("nil list is not empty")
	}
	if _, _, seq, ok := l.Next(nil); ok || seq != 0 {
		t.Error("nil list has a next fragment")
	}
	if _, _, seq, ok := l.Fragment([]byte("a")); ok || seq != 0 {
		t.Error("nil list has a fragment")
	}
}

func TestFragmentAndNext(t *testing.T) {
	l := rangedel.Build([]base.RangeTombstone{rt("b", "d", 5), rt("f", "g", 7)}, 9)
	for _, tt := range []struct{ key, fragment, next string }{
		{"a", "", "[b,d)@5"},
		{"b", "[b,d)@5", "[b,d)@5"},
		{"c", "[b,d)@5", "[b,d)@5"},
		{"d", "", "[f,g)@7"},
		{"f", "[f,g)@7", "[f,g)@7"},
		{"g", "", ""},
	} {
		one := func(start, end []byte, seq base.SeqNum, ok bool) string {
			if !ok && start == nil && end == nil && seq == 0 {
				return ""
			}
			return render([]base.RangeTombstone{{Start: start, End: end, Seq: seq}})
		}
		if got := one(l.Fragment([]byte(tt.key))); got != tt.fragment {
			t.Errorf("Fragment(%s) = %q, want %q", tt.key, got, tt.fragment)
		}
		if got := one(l.Next([]byte(tt.key))); got != tt.next {
			t.Errorf("Next(%s) = %q, want %q", tt.key, got, tt.next)
		}
	}
}

// randomTombstones draws tombstones over one- and two-letter keys, so that
// bounds coincide often.
func randomTombstones(r *rand.Rand, n int) []base.RangeTombstone {
	ts := make([]base.RangeTombstone, n)
	for i := range ts {
		seq := base.SeqNum(1 + r.IntN(12))
		ts[i] = base.RangeTombstone{Start: randomKey(r), End: randomKey(r), Seq: seq}
	}
	return ts
}

func randomKey(r *rand.Rand) []byte {
	k := []byte{byte('a' + r.IntN(8))}
	if r.IntN(2) == 0 {
		k = append(k, byte('a'+r.IntN(3)))
	}
	return k
}

// allKeys returns every key that randomKey can produce, and one between and
// around each, in order.
func allKeys() [][]byte {
	keys := [][]byte{{}, {0}}
	for a := byte('a'); a < 'j'; a++ {
		keys = append(keys, []byte{a})
		for b := byte('a'); b < 'e'; b++ {
			keys = append(keys, []byte{a, b})
		}
	}
	return keys
}

func bruteCover(ts []base.RangeTombstone, key []byte, lo, snap base.SeqNum) (best base.SeqNum) {
	for _, t := range ts {
		in := bytes.Compare(t.Start, key) <= 0 && bytes.Compare(key, t.End) < 0
		if in && t.Seq <= snap && t.Seq > lo && t.Seq > best {
			best = t.Seq
		}
	}
	return best
}

func TestAgainstBruteForce(t *testing.T) {
	keys := allKeys()
	first := testutil.Seed(t)
	for i := range uint64(3000) {
		seed := first + i
		r := rand.New(rand.NewPCG(seed, 1))
		ts := randomTombstones(r, r.IntN(12))
		snap := base.SeqNum(r.IntN(14))
		l := rangedel.Build(ts, snap)
		w := l.Walk()
		for _, k := range keys {
			want := bruteCover(ts, k, 0, snap)
			if got := l.CoverSeq(k); got != want {
				t.Fatalf("seed %d: CoverSeq(%s) = %d, want %d of %s",
					seed, k, got, want, render(ts))
			}
			if got := w.CoverSeq(k); got != want {
				t.Fatalf("seed %d: walker's CoverSeq(%s) = %d, want %d", seed, k, got, want)
			}
			_, _, seq, ok := l.Fragment(k)
			if ok != (want != 0) || seq != want {
				t.Fatalf("seed %d: Fragment(%s) = %d %t, want %d", seed, k, seq, ok, want)
			}
		}
		checkInvariant(t, seed, l.All())
		if len(ts) > 0 && l.Len() > 2*len(ts)-1 {
			t.Fatalf("seed %d: %d fragments of %d tombstones", seed, l.Len(), len(ts))
		}
	}
}

func checkInvariant(t *testing.T, seed uint64, frags []base.RangeTombstone) {
	t.Helper()
	for i, f := range frags {
		if bytes.Compare(f.Start, f.End) >= 0 {
			t.Fatalf("seed %d: empty fragment in %s", seed, render(frags))
		}
		if i == 0 {
			continue
		}
		p := frags[i-1]
		c := bytes.Compare(p.End, f.Start)
		if c > 0 || (c == 0 && p.Seq == f.Seq) {
			t.Fatalf("seed %d: fragments overlap or were not joined: %s", seed, render(frags))
		}
	}
}
