package zonemap_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/zonemap"
)

// TestDocumentedExample: the bytes in docs/format/filter.md are what Build makes.
func TestDocumentedExample(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "format", "filter.md"))
	ok(t, err)
	_, block, _ := strings.Cut(string(page), "```hex\n")
	block, _, _ = strings.Cut(block, "```")
	var want []byte
	for line := range strings.Lines(block) {
		fields := strings.SplitN(line, "  ", 3)
		b, err := hex.DecodeString(strings.ReplaceAll(fields[1], " ", ""))
		if err != nil || fields[0] != fmt.Sprintf("%04x", len(want)) {
			t.Fatalf("line %q: %v", line, err)
		}
		want = append(want, b...)
	}
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
