package record_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/internal/testutil"
)

func TestCanonical(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{` {"b" : [ 1, 2.50 ,{ } ] , "a":null} `, `{"b":[1,2.50,{}],"a":null}`},
		{`"\u00e9\/\u0041\ud83d\ude00"`, `"é/A😀"`},
		{`"\n\u000a\u0001\""`, `"\n\n\u0001\""`},
		{`-0.0e+10`, `-0.0e+10`},
		{`123456789012345678901234567890`, `123456789012345678901234567890`},
		{`1e700`, `1e700`},
	} {
		got, err := record.AppendCanonical(nil, []byte(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("canonical of %s = %s, %v; want %s", c.in, got, err, c.want)
		}
	}
}

func TestParseObjectErrors(t *testing.T) {
	tab := `column 8: control character 0x09 in a string; write it as \u0009`
	deep := `{"a":` + strings.Repeat("[", 300)
	for in, want := range map[string]string{
		deep:                   "column 206: nested more than 200 deep",
		``:                     "column 1: the line ends where an object {…} is expected",
		`[1]`:                  `column 1: '[' where an object {…} is expected`,
		`{"a":1,"a":2}`:        `the field "a" appears twice`,
		`{"a":{"b":1,"b":2}}`:  `the field "b" appears twice`,
		"{\"a\":\"x\xffy\"}":   "column 8: byte 0xff is not valid UTF-8",
		`{"a":"\ud800"}`:       "column 7: a lone surrogate is no character",
		`{"a":"\ud800\u0041"}`: "column 7: a lone surrogate is no character",
		"{\"a\":\"x\ty\"}":     tab,
		`{"a":1} {"b":2}`:      `column 9: '{' where the end of the line is expected`,
		`{"a":01}`:             `column 7: '1' where a comma or } is expected`,
		`{"a":1,}`:             `column 8: '}' where a name in "quotes" is expected`,
		`{"a":tru}`:            `column 6: 't' where a value is expected`,
		`{"a":"x`:              `column 8: the string is not closed`,
		`{"a":"\x"}`:           `column 8: 'x' where an escape is expected`,
	} {
		var row record.Row
		err := record.ParseObject([]byte(in), &row)
		if err == nil || err.Error() != want {
			t.Errorf("%.40q: error %v\nwant %s", in, err, want)
		}
		if len(row.Fields) != 0 {
			t.Errorf("%.40q: a row with fields beside the error", in)
		}
	}
}

func TestManyNamesAreCheckedForRepetition(t *testing.T) {
	var b strings.Builder
	b.WriteByte('{')
	for i := range 100 {
		b.WriteString(`"n` + strings.Repeat("x", i) + `":1,`)
	}
	ok := b.String() + `"last":1}`
	var row record.Row
	if err := record.ParseObject([]byte(ok), &row); err != nil || len(row.Fields) != 101 {
		t.Fatalf("%d fields, %v", len(row.Fields), err)
	}
	if err := record.ParseObject([]byte(b.String()+`"nxx":1}`), &row); err == nil {
		t.Fatal("the repeated name among many was accepted")
	}
}

func TestBytesRoundTrip(t *testing.T) {
	for _, in := range []string{"", "text", "\x00\xff", "a\nb", strings.Repeat("\x01", 100),
		"é\"\\"} {
		text := record.AppendBytes(nil, []byte(in))
		canonical, err := record.AppendCanonical(nil, text)
		if err != nil || !bytes.Equal(canonical, text) {
			t.Errorf("%q is written as %s, canonical %s, %v", in, text, canonical, err)
		}
		out, err := record.Unquote(nil, text)
		if err != nil || string(out) != in {
			t.Errorf("%q came back as %q, %v", in, out, err)
		}
	}
	if text := record.AppendBytes(nil, []byte(strings.Repeat("\x01", 100))); !record.IsBytes(text) {
		t.Errorf("100 control characters are written as %s", text)
	}
	lines := strings.Repeat("short\n", 100)
	if text := record.AppendBytes(nil, []byte(lines)); record.IsBytes(text) {
		t.Errorf("100 short lines are written as %s", text)
	}
	quotes := bytes.Repeat([]byte(`"`), 64<<20) // the largest value
	if n := len(record.AppendBytes(nil, quotes)); n > record.MaxRecordBytes-1<<20 {
		t.Errorf("the largest value is written in %d bytes, more than are read", n)
	}
}

// decoded returns the value of a JSON text. Numbers stay texts: JSON bounds neither their
// digits nor their size, and what has no float64 is kept as it stands, 1e700 for instance.
func decoded(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err = d.Decode(&v); err == nil && !json.Valid(text) {
		err = errors.New("more than one value")
	}
	return v, err
}

// What the strict parser accepts, encoding/json accepts with the same meaning, and the
// canonical form is a fixed point.
func FuzzParseObject(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":[true,null,"x\u00e9"],"c":{"d":-1.5e3}}`))
	f.Add([]byte(`{"$b64":"AAE="}`))
	f.Add([]byte("{\"a\":\"\xff\"}"))
	f.Add([]byte(`{"a":"\ud83d\ude00"}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		defer testutil.Watch(in)()
		var row record.Row
		err := record.ParseObject(in, &row)
		canonical, err2 := record.AppendCanonical(nil, in)
		if err != nil {
			return
		}
		if err2 != nil {
			t.Fatalf("an object but no value: %v", err2)
		}
		want, err := decoded(in)
		if err != nil || !utf8.Valid(in) {
			t.Fatalf("accepted %q, which encoding/json refuses: %v", in, err)
		}
		got, err := decoded(canonical)
		if err != nil {
			t.Fatalf("canonical %s: %v", canonical, err)
		}
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(got)
		if !bytes.Equal(a, b) {
			t.Fatalf("%q became %s", in, canonical)
		}
		again, err := record.AppendCanonical(nil, canonical)
		if err != nil || !bytes.Equal(again, canonical) {
			t.Fatalf("canonical %s became %s, %v", canonical, again, err)
		}
		for _, field := range row.Fields {
			if out, err := record.Unquote(nil, field.JSON); err == nil {
				_ = out
			}
		}
	})
}

// Text for messages ends with a whole character.
func TestShort(t *testing.T) {
	long := strings.Repeat("é", 40)
	for in, want := range map[string]string{
		"Pisa": "Pisa", "\xff": "\ufffd", long: strings.Repeat("é", 30) + "…",
		"x" + long: "x" + strings.Repeat("é", 29) + "…",
	} {
		if got := record.Short([]byte(in)); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}
