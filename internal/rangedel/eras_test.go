package rangedel_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/rangedel"
	"github.com/kstonedb/kstone/internal/testutil"
)

func TestEras(t *testing.T) {
	e := rangedel.NewEras([]base.SeqNum{50, 20, 50, 90}, 80)
	for _, tt := range []struct{ seq, end base.SeqNum }{
		{0, 20}, {20, 20}, {21, 50}, {50, 50}, {51, 80}, {80, 80}, {81, 81}, {90, 90}, {95, 95},
	} {
		if got := e.End(tt.seq); got != tt.end {
			t.Errorf("End(%d) = %d, want %d", tt.seq, got, tt.end)
		}
	}
	if e.Oldest() != 20 {
		t.Errorf("Oldest = %d, want 20", e.Oldest())
	}
	none := rangedel.NewEras(nil, 80)
	if none.Oldest() != 80 || none.End(3) != 80 || none.End(81) != 81 {
		t.Error("eras without snapshots do not end at the horizon")
	}
}

func TestKeep(t *testing.T) {
	ts := []base.RangeTombstone{
		rt("a", "z", 5), rt("c", "d", 8), rt("m", "n", 15), rt("b", "p", 30),
	}
	eras := rangedel.NewEras([]base.SeqNum{10}, 20)
	if got, want := render(rangedel.Keep(ts, &eras, false)),
		"[a,c)@5 [b,p)@30 [c,d)@8 [d,z)@5 [m,n)@15"; got != want {
		t.Errorf("upper merge keeps %q, want %q", got, want)
	}
	if got, want := render(rangedel.Keep(ts, &eras, true)), "[b,p)@30 [m,n)@15"; got != want {
		t.Errorf("bottom merge keeps %q, want %q", got, want)
	}
	both := []base.RangeTombstone{rt("a", "c", 7), rt("a", "b", 15), rt("a", "d", 25)}
	if got, want := render(rangedel.Keep(both, &eras, false)),
		"[a,d)@25 [a,b)@15 [a,c)@7"; got != want {
		t.Errorf("of one start it keeps %q, want %q", got, want)
	}
}

// Each era has its tombstones, the newest era comes first, and none is empty.
func TestByEra(t *testing.T) {
	ts := []base.RangeTombstone{
		rt("a", "b", 5), rt("c", "d", 25), rt("e", "e", 26), rt("b", "c", 15), rt("f", "g", 12),
		rt("h", "i", 24), rt("k", "k", 30),
	}
	eras := rangedel.NewEras([]base.SeqNum{10, 10}, 20)
	var got []string
	for _, e := range rangedel.ByEra(ts, &eras) {
		got = append(got, fmt.Sprintf("%d: %s", e.End, render(e.List.All())))
	}
	want := "25: [c,d)@25, 24: [h,i)@24, 20: [b,c)@15 [f,g)@12, 10: [a,b)@5"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("eras are %s, want %s", s, want)
	}
}

// What Keep returns must delete the same versions as its input at every snapshot
// that exists or may be taken, and a version that an era's own list covers must be
// invisible at all of them.
func TestKeepAndByEraAgainstBruteForce(t *testing.T) {
	keys := allKeys()
	first := testutil.Seed(t)
	for i := range uint64(1500) {
		seed := first + i
		r := rand.New(rand.NewPCG(seed, 2))
		ts := randomTombstones(r, r.IntN(10))
		horizon := base.SeqNum(r.IntN(14))
		var snaps []base.SeqNum
		for range r.IntN(3) {
			snaps = append(snaps, base.SeqNum(r.IntN(14)))
		}
		eras := rangedel.NewEras(snaps, horizon)
		views := append([]base.SeqNum(nil), snaps...)
		for s := horizon; s < 15; s++ {
			views = append(views, s)
		}
		kept := rangedel.Keep(ts, &eras, false)
		low := rangedel.Keep(ts, &eras, true)
		groups := rangedel.ByEra(ts, &eras)
		for _, k := range keys {
			for _, s := range views {
				want := bruteCover(ts, k, 0, s)
				if got := bruteCover(kept, k, 0, s); got != want {
					t.Fatalf("seed %d: at %d over %s: kept %d, want %d", seed, s, k, got, want)
				}
				wantLow := bruteCover(ts, k, eras.Oldest(), s)
				if got := bruteCover(low, k, 0, s); got != wantLow {
					t.Fatalf("seed %d: bottom at %d over %s: kept %d, want %d",
						seed, s, k, got, wantLow)
				}
			}
			checkEraCover(t, seed, ts, groups, &eras, k, views)
		}
	}
}

func checkEraCover(t *testing.T, seed uint64, ts []base.RangeTombstone, groups []rangedel.EraList,
	eras *rangedel.Eras, key []byte, views []base.SeqNum,
) {
	t.Helper()
	for seq := base.SeqNum(0); seq < 15; seq++ {
		garbage := true
		for _, s := range views {
			if seq <= s && bruteCover(ts, key, 0, s) <= seq {
				garbage = false
			}
		}
		got := false
		for _, g := range groups {
			got = got || (g.End == eras.End(seq) && g.List.CoverSeq(key) > seq)
		}
		if got != garbage {
			t.Fatalf("seed %d: version %d of %s: covered in its era %t, garbage %t",
				seed, seq, key, got, garbage)
		}
	}
}
