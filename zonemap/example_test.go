package zonemap_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/zonemap"
)

// TestDocumentedExample: the bytes in docs/format/filter.md are what Build makes.
func TestDocumentedExample(t *testing.T) {
	want, err := testutil.PageBytes("../docs/format/filter.md", "hex")
	ok(t, err)
	var b zonemap.Builder
	for _, h := range []uint64{0x0123456789abcdef, 0x1111111111111111, 0xfedcba9876543210} {
		b.Add(h)
	}
	got, err := b.Build(nil, 8)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the page shows %x, Build makes %x, %v", want, got, err)
	}
}

func ExampleFilter() {
	var b zonemap.Builder
	for i := range 1000 {
		b.Add(base.Hash(fmt.Appendf(nil, "user#%d", i), 1))
	}
	encoded, err := b.Build(nil, 8)
	if err != nil {
		panic(err)
	}
	f, err := zonemap.Open(encoded)
	if err != nil {
		panic(err)
	}
	fmt.Println(f.Contains(base.Hash([]byte("user#7"), 1)), f.Keys())
	// Output: true 1000
}
