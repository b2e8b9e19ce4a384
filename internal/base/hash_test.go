package base_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
)

// The hash is on disk, inside filters: a change would make filters deny keys that are
// there. The vectors are those of the format page, one for each way through the code.
func TestHashNeverChanges(t *testing.T) {
	page, err := os.ReadFile("../../docs/format/filter.md")
	testutil.OK(t, err)
	const long = "0123456789abcdefghijklmnopqrstuvwxyz"
	for _, key := range []string{
		"", "a", "ab", "abcd", "user#1", long[:8], long[:16], long[:17], long,
	} {
		row := fmt.Sprintf("| `%s` | `%016x` | `%016x` |", key, base.Hash([]byte(key), 0),
			base.Hash([]byte(key), 0x1122334455667788))
		if key == "" {
			row = strings.Replace(row, "``", "(empty)", 1)
		}
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/format/filter.md lacks the row\n%s", row)
		}
	}
}

// Hash is called once for each operation: it must not allocate.
func TestHashDoesNotAllocate(t *testing.T) {
	key := []byte("a key of more than sixteen bytes")
	var sum uint64
	if n := testing.AllocsPerRun(100, func() { sum += base.Hash(key, sum) }); n > 0 {
		t.Errorf("%.0f allocations", n)
	}
}
