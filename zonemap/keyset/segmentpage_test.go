package keyset_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/zonemap/keyset"
)

// TestSegmentPage: the bytes in docs/format/segments.md are what Build makes.
//
// Promise (new keys): The page about segments shows what is written.
func TestSegmentPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "format", "segments.md"))
	ok(t, err)
	_, block, _ := strings.Cut(string(page), "```hex\n")
	block, _, _ = strings.Cut(block, "```")
	var want []byte
	for line := range strings.Lines(block) {
		fields := strings.SplitN(line, "  ", 3)
		b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(fields[1]), " ", ""))
		if err != nil || fields[0] != fmt.Sprintf("%04x", len(want)) {
			t.Fatalf("line %q: %v", line, err)
		}
		want = append(want, b...)
	}
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
