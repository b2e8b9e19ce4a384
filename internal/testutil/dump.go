package testutil

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// Dump is hex.Dump with the bytes in groups of eight, as the pages of file formats show them.
func Dump(b []byte) string {
	var out strings.Builder
	for line := range strings.Lines(hex.Dump(b)) {
		if len(line) < 60 { // that of the end
			continue
		}
		digits := strings.ReplaceAll(line[10:58], " ", "")
		fmt.Fprintf(&out, "%s  %-16s %-16s  %s", line[:8], digits[:min(16, len(digits))],
			digits[min(16, len(digits)):], line[60:])
	}
	return out.String()
}
