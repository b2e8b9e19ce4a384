package keyset

import (
	"errors"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/zonemap/keyset/internal/fuse"
)

func checkError(t *testing.T, what string, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestSizesOfSegments: what a segment has no room for is refused before it is built: more than
// 4 Mi blocks, 128 Mi keys for a filter, 4 GiB of stored keys in a part.
func TestSizesOfSegments(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	b := &SegmentBuilder{opts: SegmentOptions{BlockKeys: 1}, words: make([]uint64, 1<<22+1)}
	for i := range b.words {
		b.words[i] = uint64(i)
	}
	seg, err := b.Build()
	checkError(t, "blocks", err, "keyset: 4194305 blocks in a segment")
	if seg != nil || b.Len() != 0 {
		t.Errorf("%d keys are left", b.Len())
	}
	in := &arranged{from: []int{0, 1, 1 + 1<<27, 2 + 1<<27}}
	checkError(t, "keys of a filter", b.cut(&Segment{}, in),
		"keyset: 134217728 keys for one filter, 134217727 at most")

	// 65537 times 65535 bytes, 12 of them for head and end, are 4 GiB less one byte.
	const n = 65537
	in = &arranged{from: []int{0, n}, heads: make([]uint64, n), order: make([]int, n)}
	for length, want := range map[int]string{
		65523: "",
		65524: "keyset: keys of a part exceed 4 GiB; use blocks or shards",
	} {
		b = &SegmentBuilder{arena: make([]byte, length), ends: []int{length}}
		s := &Segment{bits: 8, stored: true}
		checkError(t, "stored keys", b.cut(s, in), want)
		if want == "" && s.parts[0].column.len != 1<<32-1 {
			t.Errorf("%d bytes of stored keys", s.parts[0].column.len)
		}
	}
}

// TestFiltersThatCannotBeBuilt: the error of a filter is that of the build.
func TestFiltersThatCannotBeBuilt(t *testing.T) {
	words := make([]uint64, 1000)
	for i := range words {
		words[i] = uint64(i) << 40
	}
	long, ok := fuse.NewShape(1<<14, 1)
	if !ok {
		t.Fatal("no shape")
	}
	for want, shape := range map[string]fuse.Shape{
		"keyset: a filter could not be built under any salt": fuse.ShapeFor(5),
		"too many keys for one table":                        long,
	} {
		b := &SegmentBuilder{}
		s := &Segment{bits: 8, ints: true, parts: make([]part, 1)}
		p := &s.parts[0]
		p.kind, p.shape, p.keys, p.table.len = partFuse, shape, 1000, uint64(shape.Slots())
		p.hi = words[999]
		s.layOut()
		in := &arranged{words: words, heads: words, from: []int{0, 1000}}
		seg, err := b.write(s, in)
		if seg != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if err := p.buildFuse(make([]byte, shape.Slots()), s, words, &fuse.Builder{}); err == nil ||
			!strings.Contains(err.Error(), want) || errors.Is(err, fuse.ErrUnlucky) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestOptionsOfSegments: every option is checked by itself, all at once.
func TestOptionsOfSegments(t *testing.T) {
	for _, c := range []struct {
		opts SegmentOptions
		want string
	}{
		{SegmentOptions{}, ""}, {SegmentOptions{Bits: 16, Shards: 4096}, ""},
		{SegmentOptions{Workers: 1 << 30}, ""},
		{SegmentOptions{Shards: 1, BlockKeys: 134217727}, ""},
		{SegmentOptions{Bits: 9}, "keyset: 9 bits; 8 and 16 are supported"},
		{SegmentOptions{Shards: 8192}, "keyset: 8192 shards, not a power of two up to 4096"},
		{SegmentOptions{Shards: 3}, "keyset: 3 shards, not a power of two up to 4096"},
		{SegmentOptions{Shards: -1 << 31},
			"keyset: -2147483648 shards, not a power of two up to 4096"},
		{SegmentOptions{Workers: -1}, "keyset: -1 workers"},
		{SegmentOptions{BlockKeys: -1}, "keyset: blocks of -1 keys, not 0 to 134217727"},
		{SegmentOptions{BlockKeys: 134217728},
			"keyset: blocks of 134217728 keys, not 0 to 134217727"},
		{SegmentOptions{BlockKeys: 1, Shards: 2},
			"keyset: a segment has blocks or shards, not both"},
		{SegmentOptions{Bits: 7, Workers: -2},
			"keyset: 7 bits; 8 and 16 are supported\nkeyset: -2 workers"},
	} {
		b, err := NewSegmentBuilder(&c.opts)
		checkError(t, "options", err, c.want)
		if (b == nil) != (err != nil) {
			t.Errorf("%+v: builder %v, %v", c.opts, b != nil, err)
		}
		segments, err := BuildSegments([][]uint64{{1}, {2}, {3}}, &c.opts, 2)
		if (err == nil) != (c.want == "") || err == nil && len(segments) != 3 {
			t.Errorf("%+v: %d segments, %v", c.opts, len(segments), err)
		}
	}
	_, err := BuildSegments(nil, nil, -1)
	checkError(t, "workers", err, "keyset: -1 workers")
	if got, err := BuildSegments(nil, nil, 0); len(got) != 0 || err != nil {
		t.Errorf("%d segments of nothing, %v", len(got), err)
	}
	if got := NewSet(nil).opts.MemoryBytes; got != 1<<30 {
		t.Errorf("the interleaved copies may take %d bytes", got)
	}
}
