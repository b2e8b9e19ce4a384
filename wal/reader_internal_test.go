package wal

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// findTag finds what a look at every 8th byte finds: also where bytes that are no tag look like
// one, and over the ends of windows.
func TestFindTag(t *testing.T) {
	random := testutil.Rand(t)
	for range testutil.Effort(20, 2000) {
		content := make([]byte, 1<<20+random.IntN(100))
		for range random.IntN(300) {
			at := random.IntN(len(content) - 8)
			if random.IntN(2) == 0 { // about the end of a window
				at = windowBytes*(1+random.IntN(3)) - 64 + random.IntN(128)
			}
			binary.LittleEndian.PutUint32(content[at:], uint32(random.IntN(3)*0x0101))
		}
		tags := []uint32{0x0101, 0x0202}[:1+random.IntN(2)]
		begin := int64(random.IntN(2)*random.IntN(len(content)/8)) * 8
		var want []int64
		for off := begin; off+recordHeader <= int64(len(content)); off += 8 {
			if slices.Contains(tags, leUint32(content[off+8:])) {
				want = append(want, off)
			}
		}
		f, err := vfs.NewMem().Create("segment")
		testutil.OK(t, err)
		_, err = f.Write(content)
		testutil.OK(t, err)
		r, err := newReader(f, "segment", nil)
		testutil.OK(t, err)
		var got []int64
		for off := begin; ; {
			_, at, err := r.findTag(off, tags)
			testutil.OK(t, err)
			if at < 0 {
				break
			}
			got = append(got, at)
			off = at + recordAlign
		}
		if !slices.Equal(got, want) {
			t.Fatalf("from %d on: tags at %v, want %v", begin, got, want)
		}
		testutil.OK(t, f.Close())
	}
}
