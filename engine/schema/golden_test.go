package schema_test

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/keycodec"
)

// allTypes has a column of every type; its later versions are those of goldenVersions.
const allTypes = `{"id":5,"name":"all","columns":[{"name":"id","type":"int64"},
	{"name":"folded","type":"string","collate":"ascii"},{"name":"s","type":"string"},
	{"name":"b","type":"bytes"},{"name":"i8","type":"int8"},{"name":"i16","type":"int16"},
	{"name":"i32","type":"int32"},{"name":"i64","type":"int64"},{"name":"u8","type":"uint8"},
	{"name":"u16","type":"uint16"},{"name":"u32","type":"uint32"},{"name":"u64","type":"uint64"},
	{"name":"yes","type":"bool"},{"name":"f32","type":"float32"},{"name":"f64","type":"float64"},
	{"name":"ms","type":"time","unit":"ms"},{"name":"full","type":"time","unit":"full"},
	{"name":"uuid","type":"uuid"},{"name":"dec","type":"decimal"},
	{"name":"fix","type":"fixed","scale":2},{"name":"ip","type":"ip"},
	{"name":"net","type":"ipprefix"},{"name":"list","type":"int8","list":true},
	{"name":"n","type":"string","nullable":true}],"primary_key":["id"],"sort_key":["folded"],
	"indexes":[{"name":"x","columns":[{"column":"s","desc":true},{"column":"n","nulls":"last"}],
	"include":["fix","folded"]},{"name":"u","columns":["i32","n"],"unique":true},
	{"name":"e","columns":[{"column":"list","each":true}],"shard":"mix64:300"}]}`

func goldenVersions(t testing.TB) []*schema.Table {
	minus := expr.Int(-1)
	first := parse(t, allTypes)
	second := must(t)(first.AddColumn(schema.Column{Name: "later", Type: keycodec.TypeInt32,
		Default: &minus}))
	return []*schema.Table{first, second, must(t)(second.DropColumn("u64"))}
}

// goldenValues are the rows, as JSON of package expr; the third has a value for "later".
var goldenValues = []string{
	`[1,"Abc","text",{"bytes":"AP8="},-8,-16,-32,-64,8,16,32,64,true,{"float":"0.5"},{"float":"-1e300"},
	{"time":"2026-01-02T03:04:05.678Z"},{"time":"1900-01-01T00:00:00.000000001Z"},
	{"uuid":"00112233-4455-6677-8899-aabbccddeeff"},12345.678,99.95,{"ip":"10.1.2.3"},
	{"ipprefix":"fe80::/10"},[3,1,2],"x"]`,
	`[-1,"","",{"bytes":""},0,0,0,0,0,0,0,0,false,{"float":"NaN"},{"float":"0"},
	{"time":"1970-01-01T00:00:00Z"},{"time":"1970-01-01T00:00:00Z"},
	{"uuid":"00000000-0000-0000-0000-000000000000"},0,0,{"ip":"::"},{"ipprefix":"0.0.0.0/0"},[],null]`,
}

func goldenRow(t testing.TB, table *schema.Table, text string) []expr.Value {
	t.Helper()
	var values []expr.Value
	ok(t, json.Unmarshal([]byte(text), &values))
	row := table.Row()
	copy(row, values)
	return row
}

// TestGoldenRows reads rows that were written by the first version of the format, under
// three versions of their table, and sees that they are still written in the same way. The
// file is never generated again. A line is a version, the number of the row, PK, SK and
// value, or the name of an index and its entry's PK, SK and value.
func TestGoldenRows(t *testing.T) {
	f, err := os.Open(filepath.Join("testdata", "rows_v1.txt"))
	ok(t, err)
	defer f.Close()
	var file []string
	for s := bufio.NewScanner(f); s.Scan(); {
		file = append(file, s.Text())
	}
	versions := goldenVersions(t)
	var lines []string
	for _, table := range versions {
		for i, text := range goldenValues {
			row := goldenRow(t, table, text)
			if table.Version > 1 {
				row[len(row)-1] = expr.Int(77)
			}
			lines = append(lines, goldenLines(t, table, i, row)...)
		}
	}
	if got, want := strings.Join(lines, "\n"), strings.Join(file, "\n"); got != want {
		t.Errorf("rows and entries are\n%s", got)
	}
	newest := versions[len(versions)-1]
	for _, line := range file {
		var version, number int
		var pk, sk, value string
		if n, _ := fmt.Sscanf(line, "row %d %d %s %s %s", &version, &number, &pk, &sk,
			&value); n < 5 {
			continue
		}
		got := newest.Row()
		key := keycodec.Key{PK: unhex(t, pk), SK: unhex(t, sk)}
		if err := newest.Decode(got, key, unhex(t, value), nil); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		want := goldenRow(t, newest, goldenValues[number])
		want[newest.Columns[11].ID-1] = expr.Null() // u64 was dropped
		want[len(want)-1] = expr.Int(77)
		if version == 1 {
			want[len(want)-1] = expr.Int(-1)
		}
		for i := range want {
			if !want[i].IsNull() {
				if want[i], err = newest.Columns[i].Convert(want[i]); err != nil {
					t.Fatal(err)
				}
			}
			if got[i] != want[i] {
				t.Errorf("%s\ncolumn %s is %s, want %s", line, newest.Columns[i].Name, got[i],
					want[i])
			}
		}
	}
}

func goldenLines(t testing.TB, table *schema.Table, number int, row []expr.Value) []string {
	key := keyOf(t, table, row)
	lines := []string{fmt.Sprintf("row %d %d %x %x %x", table.Version, number, key.PK, key.SK,
		valueOf(t, table, row))}
	for _, x := range table.Indexes {
		for _, e := range entriesOf(t, x, row) {
			lines = append(lines, fmt.Sprintf("%s %x %x %x", x.Name, e.PK, e.SK, e.Value))
		}
	}
	return lines
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	ok(t, err)
	return b
}
