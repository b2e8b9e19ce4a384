package record_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/internal/testutil"
)

// dump reads everything and shows one line per record or rejection.
func dump(t *testing.T, r record.Reader) string {
	t.Helper()
	var b strings.Builder
	var row record.Row
	for {
		err := r.Next(&row)
		var rejected *record.Reject
		switch {
		case err == io.EOF:
			return b.String()
		case errors.As(err, &rejected):
			fmt.Fprintf(&b, "! %v\n", err)
			continue
		case err != nil:
			fmt.Fprintf(&b, "stop: %v\n", err)
			return b.String()
		}
		fmt.Fprintf(&b, "%d:", row.Line)
		for _, f := range row.Fields {
			fmt.Fprintf(&b, " %s=%s", f.Name, f.JSON)
		}
		b.WriteByte('\n')
	}
}

func TestCSV(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "a,b\n1,2\n3,\n", "2: a=\"1\" b=\"2\"\n3: a=\"3\" b=\"\"\n"},
		{"no line feed at the end", "a,b\n1,2", "2: a=\"1\" b=\"2\"\n"},
		{"carriage returns", "a,b\r\n1,\"2\"\r\n", "2: a=\"1\" b=\"2\"\n"},
		{"byte order mark", "\ufeffa\n1\n", "2: a=\"1\"\n"},
		{"blank lines", "a,b\n\n1,2\n\n", "3: a=\"1\" b=\"2\"\n"},
		{"quotes", "a,b\n\"x,\"\"y\"\"\",\"\"\n", "2: a=\"x,\\\"y\\\"\" b=\"\"\n"},
		{"line breaks in quotes", "a,b\n\"x\ny\r\n\",2\n5,6\n",
			"2: a=\"x\\ny\\r\\n\" b=\"2\"\n5: a=\"5\" b=\"6\"\n"},
		{"types", "a,b:json,c:number\n1,,\n2,[1],-3\n3,{,1\n4,1,x\n4,1,\"\"\"x\"\"\"\n",
			"2: a=\"1\"\n3: a=\"2\" b=[1] c=-3\n" +
				"! line 4: column \"b\": column 2: the line ends where" +
				" a name in \"quotes\" is expected\n" +
				"! line 5: column \"c\": column 1: 'x' where a value is expected\n" +
				"! line 6: column \"c\": \"\\\"x\\\"\" is not a number\n"},
		{"bytes", "a\n\"{\"\"$b64\"\":\"\"AP8=\"\"}\"\n", "2: a={\"$b64\":\"AP8=\"}\n"},
		{"column count", "a,b\n1\n1,2,3\n1,2\n",
			"! line 2: 1 column instead of 2\n! line 3: 3 columns instead of 2\n" +
				"4: a=\"1\" b=\"2\"\n"},
		{"bad UTF-8", "a,b\n1,\xff\n1,2\n",
			"! line 2: column \"b\" is not valid UTF-8\n3: a=\"1\" b=\"2\"\n"},
		{"stray quote", "a,b\n1,x\"y\n1,2\n",
			"! line 2: a quote inside of a cell that does not begin with one\n" +
				"3: a=\"1\" b=\"2\"\n"},
		{"unclosed quote at the end", "a,b\n1,2\n3,\"4\n5,6\n7,8\n",
			"2: a=\"1\" b=\"2\"\n! line 3: a quote is opened and never closed\n" +
				"4: a=\"5\" b=\"6\"\n5: a=\"7\" b=\"8\"\n"},
		{"unclosed quote before a quoted cell", "a,b\n3,\"4\n5,6\n\"7\",8\n9,10\n",
			"! line 2: text after a closing quote\n" +
				"3: a=\"5\" b=\"6\"\n4: a=\"7\" b=\"8\"\n5: a=\"9\" b=\"10\"\n"},
	} {
		r, err := record.NewCSV(strings.NewReader(c.in), ',')
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := dump(t, r); got != c.want {
			t.Errorf("%s:\n%swant\n%s", c.name, got, c.want)
		}
	}
}

func TestCSVHeader(t *testing.T) {
	const names = "reading the names of the CSV columns: "
	for in, want := range map[string]string{
		"":             "the CSV input is empty; its first line must name the columns",
		"a,a\n":        `two columns of the CSV input are named "a"`,
		"a,\n":         "column 2 of the CSV input has no name",
		"a,a:json\n":   `two columns of the CSV input are named "a"`,
		"\xff\xfea\n":  names + "the input is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8",
		"a,\xff\n1,2":  "the name of CSV column 2 is not valid UTF-8",
		"PK\x03\x04\n": names + "the input is a zip archive; unpack it first",
	} {
		if _, err := record.NewCSV(strings.NewReader(in), ','); err == nil || err.Error() != want {
			t.Errorf("%q: %v\nwant %s", in, err, want)
		}
	}
	if _, err := record.NewCSV(strings.NewReader("a"), '"'); err == nil {
		t.Error("a quote was accepted as separator")
	}
}

// Every row of cells comes back as it was written, and the reader neither panics nor
// loops on anything.
func FuzzCSV(f *testing.F) {
	f.Add([]byte("a,b\n1,\"2\n3\"\n"), "cell", "with \"quotes\", and\nlines\r\n")
	f.Add([]byte("a:json,b:number\n{},1\n\"\n\"\"\"\n"), "", " lead")
	f.Fuzz(func(t *testing.T, in []byte, cell1, cell2 string) {
		defer testutil.Watch(in, cell1, cell2)()
		if r, err := record.NewCSV(strings.NewReader(string(in)), ','); err == nil {
			lines := strings.Count(string(in), "\n") + 1
			if n := strings.Count(dump(t, r), "\n"); n > lines {
				t.Fatalf("%d records in %d lines", n, lines)
			}
		}
		cell1, cell2 = strings.ToValidUTF8(cell1, "?"), strings.ToValidUTF8(cell2, "?")
		file := append([]byte("x,y\n"), record.AppendCell(nil, []byte(cell1))...)
		file = append(record.AppendCell(append(file, ','), []byte(cell2)), '\n')
		r, err := record.NewCSV(strings.NewReader(string(file)), ',')
		ok(t, err)
		var row record.Row
		if err := r.Next(&row); err != nil {
			t.Fatalf("%q: %v", file, err)
		}
		for i, want := range []string{cell1, cell2} {
			got, err := record.Unquote(nil, row.Fields[i].JSON)
			if !record.IsBytes([]byte(want)) && (err != nil || string(got) != want) {
				t.Fatalf("%q came back as %q, %v", want, got, err)
			}
		}
	})
}
