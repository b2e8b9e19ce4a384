package command

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

var ok = testutil.OK

// places returns a session on a database with sort keys of three fields.
func places(t *testing.T) *session {
	t.Helper()
	a := &cli.App{Out: io.Discard, Err: io.Discard}
	d, err := a.OpenDB("places", cli.Create, &engine.Options{InMemory: true})
	ok(t, err)
	t.Cleanup(func() { d.Close() })
	d.Schema, err = layout.ParseSchema([]string{"country"}, []string{"region", "county", "city"})
	ok(t, err)
	for _, place := range []string{
		"IT/Lombardy/Milano/Abbiategrasso", "IT/Lombardy/Milano/Albairate",
		"IT/Lombardy/Provincia di Brescia/Brescia", "IT/Tuscany/Pisa/Pisa",
		"IS/Capital//Reykjavik", "US/Texas/Brazos/Bryan", "I/x/y/z",
	} {
		parts := strings.Split(place, "/")
		var args []layout.Arg
		for _, part := range parts[1:] {
			args = append(args, layout.Arg{Bytes: []byte(part)})
		}
		sk, err := d.Schema.SKOfParts(args)
		if err == nil {
			err = d.Put(engine.Key{PK: []byte(parts[0]), SK: sk}, []byte("{}"))
		}
		ok(t, err)
	}
	return &session{app: a, db: d}
}

// The cursor stands at |. What is completed replaces the word before it.
func TestShellCompletion(t *testing.T) {
	s := places(t)
	t.Chdir(t.TempDir())
	ok(t, os.WriteFile("a file.csv", nil, 0o600))
	for _, c := range []struct {
		line string
		head string
		want []string
	}{
		{"que|", "", []string{"query"}},
		{"e|", "", []string{"exit", "export"}},
		{".t|", "", []string{".tables", ".timer"}},
		{".format j|", ".format ", []string{"json", "jsonl"}},
		{".help qu|", ".help ", []string{"query"}},
		{"query |", "query ", []string{"I", "IS", "IT", "US"}},
		{"query I|", "query ", []string{"I", "IS", "IT"}},
		{"query IT| --limit 3", "query ", []string{"IT"}},
		{"query IT --sk-pr|", "query IT ", []string{"--sk-prefix"}},
		{"query IT --li|", "query IT ", []string{"--limit"}},
		{"query IT --sk-prefix |", "query IT --sk-prefix ", []string{"Lombardy", "Tuscany"}},
		{"query IT -p Lombardy -p |", "query IT -p Lombardy -p ",
			[]string{"Milano", `"Provincia di Brescia"`}},
		{"query IT -p Lombardy -p \"Prov|", "query IT -p Lombardy -p ",
			[]string{`"Provincia di Brescia"`}},
		{"query IT --sk-prefix=Lombardy --sk-begins-with M|",
			"query IT --sk-prefix=Lombardy --sk-begins-with ", []string{"Milano"}},
		{"get IT --sk-part Lombardy --sk-part Milano --sk-part |",
			"get IT --sk-part Lombardy --sk-part Milano --sk-part ",
			[]string{"Abbiategrasso", "Albairate"}},
		{"get IS --sk-part Capital --sk-part |", "get IS --sk-part Capital --sk-part ",
			[]string{`""`}},
		{"get XX --sk-part |", "get XX --sk-part ", nil},
		{"query IT -o ta|", "query IT -o ", []string{"table"}},
		{"import a|", "import ", []string{`a\ file.csv`}},
		{"query IT -p Lombardy -p Prov|", "query IT -p Lombardy -p ",
			[]string{`Provincia\ di\ Brescia`}},
		{"nonsense |", "nonsense ", nil},
		{"count IT US |", "count IT US ", nil},
	} {
		before, after, _ := strings.Cut(c.line, "|")
		start, found := s.complete(before+after, len(before))
		var got []string
		for _, candidate := range found {
			got = append(got, candidate.Text)
		}
		if before[:start] != c.head || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q %q; want %q %q", c.line, before[:start], got, c.head, c.want)
		}
	}
}

func TestClosest(t *testing.T) {
	names := []string{"query", "get", "put", "count", "compact"}
	for in, want := range map[string]string{
		"qurey": "query", "gte": "get", "cuont": "count", "comp": "compact", "xyz": "", "": "",
		"queryy": "query", "p": "",
	} {
		if got := cli.Closest(in, names); got != want {
			t.Errorf("closest to %q is %q, want %q", in, got, want)
		}
	}
}
