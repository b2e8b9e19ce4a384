package keycodec_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/keycodec"
)

const page = "../docs/format/keys.md"

// example is a row of the page's table of examples.
type example struct {
	form, text string
	bytes      []byte
}

func examples(t *testing.T) []example {
	t.Helper()
	b, err := os.ReadFile(page)
	ok(t, err)
	text := strings.ReplaceAll(string(b), "\r\n", "\n")
	_, section, ok := strings.Cut(text, "\n## Examples\n")
	if !ok {
		t.Fatalf("%s has no section Examples", page)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var list []example
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 3 || !strings.HasSuffix(cells[2], "` |") {
			continue
		}
		list = append(list, example{
			form:  strings.TrimPrefix(cells[0], "| "),
			text:  strings.Trim(cells[1], "`"),
			bytes: unhex(t, strings.Trim(cells[2], "` |")),
		})
	}
	return list
}

// schemaOf reads the form column of a typed value: what Field.String writes, less names.
func schemaOf(t *testing.T, form string) keycodec.Schema {
	t.Helper()
	var list []map[string]any
	for i, part := range strings.Split(form, ", ") {
		words := strings.Fields(part)
		typ, detail, _ := strings.Cut(strings.TrimSuffix(words[0], ")"), "(")
		f := map[string]any{"name": string(rune('a' + i)), "type": typ}
		switch typ {
		case "time":
			f["unit"] = detail
		case "fixed":
			f["scale"] = number(detail)
		}
		if n := slices.Index(words, "collate"); n >= 0 {
			f["collate"], f["keepcase"] = words[n+1], slices.Contains(words, "keepcase")
		}
		f["desc"] = slices.Contains(words, "desc")
		if n := slices.Index(words, "null"); n >= 0 {
			f["nullable"], f["nulls"] = true, words[n+1]
		}
		list = append(list, f)
	}
	var s keycodec.Schema
	if err := json.Unmarshal(must(json.Marshal(list)), &s); err != nil {
		t.Fatalf("form %q: %v", form, err)
	}
	return s
}

func TestPageExamples(t *testing.T) {
	list := examples(t)
	seen := map[string]bool{}
	for _, e := range list {
		form, _, _ := strings.Cut(e.form, " ")
		form, _, _ = strings.Cut(form, "(")
		seen[strings.TrimSuffix(form, ",")] = true
		switch e.form {
		case "ordered", "length-prefixed", "stripe":
			checkKey(t, e)
			continue
		case "tagged":
			checkTagged(t, e)
			continue
		}
		s := schemaOf(t, e.form)
		values, err := s.Parse(e.text)
		if err != nil {
			t.Errorf("%s %s: %v", e.form, e.text, err)
			continue
		}
		if got := must(s.Append(nil, values...)); !bytes.Equal(got, e.bytes) {
			t.Errorf("%s %s is %x, the page says %x", e.form, e.text, got, e.bytes)
		}
		if text, err := s.Format(e.bytes); err != nil || text != e.text {
			t.Errorf("%x reads as %s, error %v; the page says %s", e.bytes, text, err, e.text)
		}
	}
	forms := []string{"ordered", "length-prefixed", "stripe", "tagged"}
	for typ := keycodec.TypeString; typ <= keycodec.TypeIPPrefix; typ++ {
		forms = append(forms, typ.String())
	}
	for _, form := range forms {
		if !seen[form] {
			t.Errorf("%s has no example of %s", page, form)
		}
	}
}

// checkTagged checks an example of a tagged tuple, from its bytes: its text is not parsed.
func checkTagged(t *testing.T, e example) {
	t.Helper()
	text, err := keycodec.FormatTagged(e.bytes)
	if err != nil || text != e.text {
		t.Errorf("%x reads as %s, error %v; the page says %s", e.bytes, text, err, e.text)
		return
	}
	elements := must(keycodec.DecodeTagged(e.bytes))
	if got := must(keycodec.AppendTagged(nil, elements...)); !bytes.Equal(got, e.bytes) {
		t.Errorf("tagged %s is %x, the page says %x", e.text, got, e.bytes)
	}
}

// checkKey checks an example of a whole key.
func checkKey(t *testing.T, e example) {
	t.Helper()
	fields := []keycodec.Field{{Name: "pk", Type: keycodec.TypeBytes}}
	if strings.Contains(e.text, " / ") {
		fields = append(fields, keycodec.Field{Name: "sk", Type: keycodec.TypeBytes})
	}
	parts := must(must(keycodec.NewSchema(fields...)).Parse(e.text))
	k := keycodec.Key{PK: parts[0].([]byte)}
	if len(parts) > 1 {
		k.SK = parts[1].([]byte)
	}
	var got []byte
	switch e.form {
	case "ordered":
		got = keycodec.AppendOrdered(nil, k)
	case "length-prefixed":
		got = keycodec.AppendLengthPrefixed(nil, k)
	case "stripe":
		got = []byte{keycodec.Stripe(k.PK)}
	}
	if !bytes.Equal(got, e.bytes) || k.String() != e.text {
		t.Errorf("%s %s is %x, the page says %x", e.form, k, got, e.bytes)
	}
}
