package schema_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// TestPageExamples compares the examples of docs/format/table.md with what is written.
func TestPageExamples(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "format", "table.md"))
	ok(t, err)
	_, page, found := strings.Cut(string(b), "\n## Examples\n")
	definitions := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(page, -1)
	if !found || len(definitions) != 2 {
		t.Fatal("the page does not have two tables")
	}
	orders, readings := parse(t, definitions[0][1]), parse(t, definitions[1][1])
	want := map[string]string{}
	for _, text := range regexp.MustCompile("(The|its) row `(.*?)`").
		FindAllStringSubmatch(page, -1) {
		table := orders
		if text[1] == "its" {
			table = readings
		}
		row := goldenRow(t, table, text[2])
		key, name := keyOf(t, table, row), fmt.Sprintf("row %s", row[1])
		want[name+" PK"] = fmt.Sprintf("%x", key.PK)
		want[name+" SK"] = fmt.Sprintf("%x", key.SK)
		want[name+" value"] = fmt.Sprintf("%x", valueOf(t, table, row))
		if row[1].String() == "7" {
			want[name+" zones"] = zonesOf(key.PK, key.SK, valueOf(t, table, row),
				table.DescribeRows)
		}
		for _, x := range table.Indexes {
			for i, e := range entriesOf(t, x, row) {
				name := fmt.Sprintf("%s %d of row %s ", x.Name, i+1, row[1])
				want[name+"PK"] = fmt.Sprintf("%x", e.PK)
				want[name+"SK"] = fmt.Sprintf("%x", e.SK)
				want[name+"value"] = fmt.Sprintf("%x", e.Value)
				if x.Name == "by_time" && row[1].String() == "7" {
					want[name+"zones"] = zonesOf(e.PK, e.SK, e.Value, x.DescribeEntries)
				}
			}
		}
	}
	got := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| ([^|]*?) \\| `?([^|`]*)`? \\|$").
		FindAllStringSubmatch(page, -1) {
		if m[1] != "part" && m[1] != "version" && m[1] != "---" && m[1] != "1" {
			got[m[1]] = strings.TrimPrefix(strings.ReplaceAll(m[2], " ", ""), "nothing")
		}
	}
	for name, bytes := range want {
		if got[name] != bytes {
			t.Errorf("%s is %s, the page says %s", name, bytes, got[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("the page has %d examples, want %d", len(got), len(want))
	}
}

// zonesOf returns the column zones of a file with one item.
func zonesOf(pk, sk, value []byte,
	describe func(*zone.ColumnsBuilder, *zone.Items, int, int)) string {
	key := keycodec.AppendOrdered(nil, keycodec.Key{PK: pk, SK: sk})
	var items zone.Items
	items.Reset(key, value)
	items.Add(0, len(key), 0, len(value))
	var b zone.ColumnsBuilder
	describe(&b, &items, 0, 1)
	b.FinishBlock(1)
	return fmt.Sprintf("%x", b.FinishFile(nil))
}
