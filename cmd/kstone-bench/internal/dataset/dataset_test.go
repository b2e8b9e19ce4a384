package dataset_test

import (
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dataset"
)

func TestPermutationVisitsEachOnce(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 5, 64, 1000, 65537} {
		p, seen := dataset.NewPermutation(n, n), make([]bool, n)
		for i := range n {
			at := p.At(i)
			if at >= n || seen[at] {
				t.Fatalf("n=%d: At(%d) = %d is too large or comes twice", n, i, at)
			}
			seen[at] = true
		}
	}
}

func TestPermutationLooksRandom(t *testing.T) {
	const n, block = 1 << 16, 1 << 10
	same, near := 0, 0
	for s := range uint64(16) {
		p := dataset.NewPermutation(n, s)
		for i := range uint64(n - 1) {
			a, b := p.At(i), p.At(i+1)
			if a/block == b/block {
				same++
			}
			if a == i || b == a+1 || a == b+1 {
				near++
			}
		}
	}
	if same < 15*block || same > 17*block || near > 100 {
		t.Errorf("neighbours share a block %d times, want about %d; %d are near, want about 48",
			same, 16*block, near)
	}
}

func TestKeyRoundTrip(t *testing.T) {
	ids := []uint64{0, 1, 42, 9_999_999_999_999_999}
	for i := range uint64(10_000) { // every group of four digits, in every place
		ids = append(ids, i, i*10_000+9_999-i, i*100_000_000+i, i*1_000_000_000_000)
	}
	for _, id := range ids {
		k := dataset.AppendKey(nil, id)
		if want := fmt.Sprintf("%016d", id); string(k) != want {
			t.Errorf("AppendKey(%d) = %q", id, k)
		}
		for cut := range len(k) + 1 {
			if got, ok := dataset.ParseKey(k[:cut], k[cut:]); !ok || got != id {
				t.Errorf("ParseKey(%q, %q) = %d, %v", k[:cut], k[cut:], got, ok)
			}
		}
	}
	if _, ok := dataset.ParseKey([]byte("000000000000000x"), nil); ok {
		t.Error("ParseKey accepts a letter")
	}
}

func TestValuesNoticeEveryDamagedByte(t *testing.T) {
	for _, size := range []int{20, 21, 35, 36, 100, 1024, 6157, 10_001} {
		testDamage(t, size)
	}
}

func testDamage(t *testing.T, size int) {
	values := dataset.NewValues(size)
	v := values.Append(nil, 7, 3)
	if err := values.Check(7, v); err != nil || dataset.Version(v) != 3 {
		t.Fatalf("intact value: %v, version %d", err, dataset.Version(v))
	}
	for i := range v {
		v[i] ^= 1
		if values.Check(7, v) == nil {
			t.Errorf("%d bytes: a flipped bit in byte %d goes unnoticed", size, i)
		}
		v[i] ^= 1
	}
	if values.Check(8, v) == nil || values.Check(7, v[:size-1]) == nil {
		t.Error("a value of another record or length goes unnoticed")
	}
}

func TestZipfIsSkewedAndBounded(t *testing.T) {
	const n = 100_000
	z, first := dataset.NewZipf(n, 1), 0
	for i := range uint64(200_000) {
		r := z.Rank(i)
		if r >= n {
			t.Fatalf("rank %d", r)
		}
		if r == 0 {
			first++
		}
	}
	if share := float64(first) / 200_000; share < 0.06 || share > 0.10 {
		t.Errorf("rank 0 has a share of %.3f, want about 0.078", share)
	}
}

func BenchmarkAppendAndCheck(b *testing.B) {
	values := dataset.NewValues(100)
	buf := make([]byte, 0, 100)
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i++ {
		if err := values.Check(i, values.Append(buf, i, 0)); err != nil {
			b.Fatal(err)
		}
	}
}
