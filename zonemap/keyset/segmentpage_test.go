package keyset_test

import (
	"bytes"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/zonemap/keyset"
)

// TestSegmentPage: the bytes in docs/format/segments.md are what Build makes.
//
// Promise (new keys): The page about segments shows what is written.
func TestSegmentPage(t *testing.T) {
	want, err := testutil.PageBytes("../../docs/format/segments.md", "hex")
	ok(t, err)
	b, err := keyset.NewSegmentBuilder(&keyset.SegmentOptions{Seed: 1, StoreKeys: true})
	ok(t, err)
	b.AddAll([]uint64{0xfedcba9876543210, 7, 0x1000})
	seg, err := b.Build()
	ok(t, err)
	got, err := seg.AppendBinary(nil)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the page shows %x, Build makes %x, %v", want, got, err)
	}
}
