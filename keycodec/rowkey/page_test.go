package rowkey_test

import (
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/keycodec/rowkey"
)

// TestPageExamples checks the examples of the format page against what the code writes.
func TestPageExamples(t *testing.T) {
	const page = "../../docs/format/rowkey.md"
	text, err := os.ReadFile(page)
	ok(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Examples\n")
	section, _, _ = strings.Cut(section, "\n## ")
	n := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 2 || !strings.HasSuffix(cells[1], "`") {
			continue
		}
		n++
		b := &rowkey.Builder{}
		for _, part := range strings.Split(strings.Trim(cells[0], "`"), " / ") {
			addPart(t, b, part)
		}
		key, err := b.Drain()
		want := strings.ReplaceAll(strings.Trim(cells[1], "`"), " ", "")
		if got := hex.EncodeToString(key); got != want || err != nil {
			t.Errorf("%s is %s, error %v, the page says %s", cells[0], got, err, want)
		}
	}
	if n < 13 {
		t.Errorf("%s has %d examples", page, n)
	}
}

func addPart(t *testing.T, b *rowkey.Builder, part string) {
	t.Helper()
	kind, value, _ := strings.Cut(part, " ")
	var err error
	switch kind {
	case "int":
		var v int64
		v, err = strconv.ParseInt(value, 10, 64)
		b.AddInt64(v)
	case "varint":
		var v uint64
		v, err = strconv.ParseUint(value, 10, 64)
		b.AddVarint(v)
	case "hex":
		var v []byte
		v, err = hex.DecodeString(value)
		b.AddBytes(v)
	default:
		b.AddString(part)
	}
	if err != nil {
		t.Fatalf("part %q: %v", part, err)
	}
}
