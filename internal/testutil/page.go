package testutil

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
)

// PageBytes returns the bytes that a page shows in its block of a kind, which has on each line an
// offset, two spaces, bytes, two spaces and a remark.
func PageBytes(page, kind string) (b []byte, err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	_, block, _ := strings.Cut(string(text), "```"+kind+"\n")
	block, _, _ = strings.Cut(block, "```")
	for line := range strings.Lines(block) {
		offset, rest, _ := strings.Cut(strings.TrimSpace(line), "  ")
		digits, _, _ := strings.Cut(rest, "  ")
		part, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		if err != nil || offset != fmt.Sprintf("%04x", len(b)) {
			return nil, fmt.Errorf("%s, line %q: %v", page, line, err)
		}
		b = append(b, part...)
	}
	return b, nil
}

// PageShows fails the test unless a page shows bytes like hex.Dump does, in groups of eight.
func PageShows(t failer, page string, b []byte) {
	t.Helper()
	text, err := os.ReadFile(page)
	OK(t, err)
	var dump strings.Builder
	for line := range strings.Lines(hex.Dump(b)) {
		if len(line) < 60 { // that of the end
			continue
		}
		digits := strings.ReplaceAll(line[10:58], " ", "")
		fmt.Fprintf(&dump, "%s  %-16s %-16s  %s", line[:8], digits[:min(16, len(digits))],
			digits[min(16, len(digits)):], line[60:])
	}
	if !strings.Contains(strings.ReplaceAll(string(text), "\r\n", "\n"), dump.String()) {
		t.Fatalf("%s lacks\n%s", page, dump.String())
	}
}
