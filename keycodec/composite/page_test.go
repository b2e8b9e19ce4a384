package composite_test

import (
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/keycodec/composite"
	"github.com/kstonedb/kstone/keycodec/shard"
)

const page = "../../docs/format/composite.md"

// TestPageExamples checks the examples of the format page against what the code writes.
func TestPageExamples(t *testing.T) {
	text := string(must(os.ReadFile(page)))
	_, section, _ := strings.Cut(text, "\n## Examples\n")
	section, _, _ = strings.Cut(section, "\n## ")
	n := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 4 || !strings.HasSuffix(cells[3], "`") {
			continue
		}
		n++
		s := schemaOf(t, cells[0], strings.Trim(cells[1], "`"))
		var values []any
		for i, text := range strings.Split(strings.Trim(cells[2], "`"), " / ") {
			values = append(values, valueOf(t, s.Fields()[i], text))
		}
		want := strings.ReplaceAll(strings.Trim(cells[3], "`"), " ", "")
		if got := hex.EncodeToString(must(s.Append(nil, values...))); got != want {
			t.Errorf("%s of %s is %s, the page says %s", cells[2], s, got, want)
		}
	}
	if n < 8 {
		t.Errorf("%s has %d examples", page, n)
	}
	stored := `{"version":1,"delimiter":"UNIT_SEPARATOR","fields":[{"name":"user_id",` +
		`"type":"string","width":32}]}`
	var s composite.Schema
	if err := s.UnmarshalJSON([]byte(stored)); err != nil || !strings.Contains(text, stored) {
		t.Errorf("the schema of the page: %v", err)
	}
}

func schemaOf(t *testing.T, options, fields string) *composite.Schema {
	t.Helper()
	spec, delimiter, _ := strings.Cut(options, " ")
	o := composite.Options{Delimiter: must(composite.ParseDelimiter(delimiter))}
	if spec != "none" {
		parsed := must(shard.ParseSpec(spec))
		o.Shard = &parsed
	}
	var list []composite.Field
	for _, f := range strings.Split(fields, ",") {
		list = append(list, must(composite.ParseField(f)))
	}
	return must(composite.NewSchema(o, list...))
}

func valueOf(t *testing.T, f composite.Field, text string) any {
	t.Helper()
	switch f.Type {
	case composite.Integer, composite.Timestamp:
		return must(strconv.ParseInt(text, 10, 64))
	case composite.Decimal:
		return must(keycodec.ParseDecimal(text))
	}
	return text
}
