package stripe_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/stripe"
)

// fillAtRandom makes a stripe with several runs and memtables that overlap, in which some
// ranges are dense and others sparse.
func fillAtRandom(w *world, rng *rand.Rand) {
	for phase := range 1 + rng.IntN(5) {
		var ops []op
		for range rng.IntN(900) {
			key := fmt.Sprintf("k%06d", rng.IntN(100_000))
			if rng.IntN(2) == 0 { // a dense place
				key = fmt.Sprintf("k%06d", 40_000+rng.IntN(200)+100*phase)
			}
			ops = append(ops, put(key, fmt.Sprint("value ", rng.IntN(1e9))))
		}
		if len(ops) == 0 {
			continue
		}
		for part := range slices.Chunk(ops, 50) {
			w.commit(part...)
		}
		switch rng.IntN(4) {
		case 0, 1:
			w.flush()
		case 2:
			w.s.Freeze()
		}
	}
}

// piecesOf finds all pieces of a range, by picking at many places.
func piecesOf(t *testing.T, p *stripe.Pieces, places int) []stripe.Piece {
	t.Helper()
	var all []stripe.Piece
	for i := range places {
		one, err := p.Pick(p.Weight() * float64(i) / float64(places))
		ok(t, err)
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b stripe.Piece) int { return bytes.Compare(a.Lo, b.Lo) })
	return slices.CompactFunc(all, func(a, b stripe.Piece) bool {
		return bytes.Equal(a.Lo, b.Lo) && bytes.Equal(a.Hi, b.Hi) && a.Share == b.Share
	})
}

// TestPiecesMakeUpTheRange checks that the pieces of random ranges of random stripes lie one
// after the other without gaps, that their shares add up to the weight, and that none has
// more keys than blocks and memtables let expect.
func TestPiecesMakeUpTheRange(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 3))
		w := newWorld(t, vfs.NewMem())
		fillAtRandom(w, rng)
		lo, hi := []byte(nil), []byte(nil)
		if rng.IntN(3) > 0 {
			lo = fmt.Appendf(nil, "k%06d", rng.IntN(60_000))
		}
		if rng.IntN(3) > 0 {
			hi = fmt.Appendf(nil, "k%06d", 40_000+rng.IntN(70_000))
		}
		checkPieces(t, w, seed, lo, hi)
		w.s.Close()
	}
}

func checkPieces(t *testing.T, w *world, seed uint64, lo, hi []byte) {
	t.Helper()
	p, err := w.s.Pieces(lo, hi)
	ok(t, err)
	defer p.Close()
	keys := w.keysBetween(lo, hi)
	if p.Weight() == 0 {
		if len(keys) > 0 {
			t.Fatalf("seed %d: no pieces of %d keys", seed, len(keys))
		}
		return
	}
	all := piecesOf(t, p, 20_000)
	sum, at := 0.0, lo
	for _, one := range all {
		if !bytes.Equal(one.Lo, at) {
			t.Fatalf("seed %d: a piece begins at %q, that before ends at %q", seed, one.Lo, at)
		}
		if n := len(w.keysBetween(one.Lo, one.Hi)); n > 500 {
			t.Errorf("seed %d: a piece of %d keys", seed, n)
		}
		sum += one.Share
		at = one.Hi
	}
	if !bytes.Equal(at, hi) {
		t.Fatalf("seed %d: the last piece ends at %q, not at %q", seed, at, hi)
	}
	if math.Abs(sum-p.Weight()) > 1e-6*sum {
		t.Fatalf("seed %d: the shares of %d pieces add up to %g of %g", seed, len(all), sum,
			p.Weight())
	}
}

// keysBetween returns the keys of the model in [lo, hi), deleted ones included.
func (w *world) keysBetween(lo, hi []byte) (keys []string) {
	for k := range w.model.versions {
		if k >= string(lo) && (hi == nil || k < string(hi)) {
			keys = append(keys, k)
		}
	}
	return keys
}
