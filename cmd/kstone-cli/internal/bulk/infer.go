package bulk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/keycodec"
)

// The definition of a new table is taken from the beginning of its file, up to these limits.
const (
	sampleBytes   = 1 << 20
	sampleRecords = 5000
)

var (
	integerText = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	numberText  = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
	timeText    = regexp.MustCompile(`^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?` +
		`(Z|[-+]\d\d:\d\d)?)?$`)
	keyName = regexp.MustCompile(`(?i)(^|_)(id|key|uuid|code)$`)
)

// exactDigits is how many digits a float keeps of every number.
const exactDigits = 15

// guesses are the types that a column can get, the first that takes all its values. A quoted text
// of JSON is never a number or bool; of a cell of CSV only the text decides.
var guesses = []struct {
	name string
	fits func(text string, quoted bool) bool
}{
	{"BOOL", func(s string, quoted bool) bool {
		return !quoted && (strings.EqualFold(s, "true") || strings.EqualFold(s, "false"))
	}},
	{"INT", func(s string, quoted bool) bool {
		_, err := strconv.ParseInt(s, 10, 64)
		return !quoted && err == nil && integerText.MatchString(s)
	}},
	{"FLOAT", func(s string, quoted bool) bool { return !quoted && isFloat(s) }},
	{"DECIMAL", func(s string, quoted bool) bool {
		return !quoted && numberText.MatchString(s) && !strings.ContainsAny(s, "eE")
	}},
	{"UUID", func(s string, _ bool) bool {
		_, err := keycodec.ParseUUID(s)
		return len(s) == 36 && err == nil
	}},
	{"DATE", func(s string, _ bool) bool {
		_, err := time.Parse(time.DateOnly, s)
		return err == nil
	}},
	{"TIMESTAMP", func(s string, _ bool) bool {
		c := schema.Column{Type: keycodec.TypeTime, Unit: keycodec.Microsecond}
		_, err := c.Convert(expr.String(s))
		return err == nil && timeText.MatchString(s)
	}},
	{"BYTES", func(s string, quoted bool) bool { return !quoted && record.IsBytes([]byte(s)) }},
	{"TEXT[]", func(s string, quoted bool) bool { return !quoted && listOf(s, "TEXT") }},
	{"INT[]", func(s string, quoted bool) bool { return !quoted && listOf(s, "INT") }},
	{"FLOAT[]", func(s string, quoted bool) bool { return !quoted && listOf(s, "FLOAT") }},
	{"BOOL[]", func(s string, quoted bool) bool { return !quoted && listOf(s, "BOOL") }},
	{"TEXT", func(string, bool) bool { return true }},
}

// isFloat reports whether a text is a number whose digits a float keeps all.
func isFloat(s string) bool {
	mantissa, _, _ := strings.Cut(strings.ToLower(s), "e")
	digits := strings.ReplaceAll(strings.Trim(mantissa, "-"), ".", "")
	return numberText.MatchString(s) && len(digits) <= exactDigits
}

// listOf reports whether a text is a JSON array of elements of a type.
func listOf(s, element string) bool {
	var parts []json.RawMessage
	if !strings.HasPrefix(s, "[") || json.Unmarshal([]byte(s), &parts) != nil {
		return false
	}
	for _, part := range parts {
		part = bytes.TrimSpace(part)
		quoted, ok := part[0] == '"', false
		switch text := string(part); element {
		case "TEXT":
			ok = quoted
		case "INT":
			_, err := strconv.ParseInt(text, 10, 64)
			ok = err == nil
		case "FLOAT":
			ok = isFloat(text)
		case "BOOL":
			ok = text == "true" || text == "false"
		}
		if !ok {
			return false
		}
	}
	return true
}

// guessedColumn is what is known about a column of a new table.
type guessedColumn struct {
	name   string
	never  []bool          // guesses that do not take all values
	values int             // records that have one
	seen   map[string]bool // the values
}

func (c *guessedColumn) typeName() string {
	if c.values == 0 {
		return "TEXT"
	}
	return guesses[slices.Index(c.never, false)].name
}

// guessTable is the definition of a new table in the making.
type guessTable struct {
	columns []*guessedColumn
	records int
}

func (g *guessTable) column(name string) *guessedColumn {
	for _, c := range g.columns {
		if c.name == name {
			return c
		}
	}
	return nil
}

// add takes in a record. Null is the canonical text of a bare cell that is NULL.
func (g *guessTable) add(row *record.Row, null []byte) error {
	g.records++
	for _, f := range row.Fields {
		c := g.column(string(f.Name))
		if c == nil {
			c = &guessedColumn{name: string(f.Name), seen: map[string]bool{},
				never: make([]bool, len(guesses))}
			g.columns = append(g.columns, c)
		}
		if string(f.JSON) == "null" || f.Bare && bytes.Equal(f.JSON, null) {
			continue
		}
		text, quoted := string(f.JSON), f.JSON[0] == '"'
		if quoted {
			b, err := record.Unquote(nil, f.JSON)
			if err != nil {
				return err
			}
			text, quoted = string(b), !row.Untyped
		}
		c.values++
		c.seen[text] = true
		for i := range guesses {
			c.never[i] = c.never[i] || !fits(i, row, text, quoted)
		}
	}
	return nil
}

// fits reports whether a guess takes a value. Numbers of DynamoDB are decimal: no float keeps them.
func fits(guess int, row *record.Row, text string, quoted bool) bool {
	if name := guesses[guess].name; row.Typed && name == "DECIMAL" {
		return !quoted && numberText.MatchString(text)
	} else if row.Typed && (name == "FLOAT" || name == "FLOAT[]") {
		return false
	}
	return guesses[guess].fits(text, quoted)
}

// read takes in the records of the beginning of an input. What ends it early, or is malformed,
// is for the import itself to report.
func (g *guessTable) read(f *ImportFlags, name string, sample io.Reader) error {
	r, err := f.Records(name, sample)
	if err != nil {
		return err
	}
	defer r.Close()
	null := record.AppendString(nil, []byte(f.null))
	why := ""
	for g.records < sampleRecords {
		err := r.Next(func(row *record.Row) error { return g.add(row, null) })
		if err != nil && err != io.EOF && !errors.Is(err, errCutOff) && why == "" {
			why = ": " + cli.PlainText(err)
		}
		var rejected *record.Reject
		if err != nil && !errors.As(err, &rejected) {
			break
		}
	}
	if len(g.columns) == 0 {
		return cli.Usage("%s: no record in the first %d MiB shows what columns there are%s", name,
			sampleBytes>>20, why).WithHint("make the table first, with the command sql")
	}
	return f.checkDelimiter(name, g.columns)
}

// checkDelimiter refuses a single column whose name looks like those of several.
func (f *ImportFlags) checkDelimiter(name string, columns []*guessedColumn) error {
	at := strings.IndexAny(columns[0].name, ";\t|")
	if len(columns) > 1 || at < 0 || f.Delimiter != "," {
		return nil
	}
	delimiter := strings.ReplaceAll(columns[0].name[at:at+1], "\t", `\t`)
	return cli.Usage("%s: %q is one column", name, columns[0].name).
		WithHint("separate it with --delimiter '%s', or make the table first, with the command sql",
			delimiter)
}

// key returns the columns of the primary key, and whether it is one that is not in the file, the
// numbers of its lines: if none is given, the key is the first column, or one with the name of
// a key, that has another value in every record.
func (g *guessTable) key(given []string) (names []string, made bool, err error) {
	for _, name := range given {
		if g.column(name) == nil {
			var all []string
			for _, c := range g.columns {
				all = append(all, c.name)
			}
			return nil, false, cli.Usage("--key: no record has a field %s", name).
				WithHint("the fields are %s", strings.Join(all, ", "))
		}
	}
	if len(given) > 0 {
		return given, false, nil
	}
	for i, c := range g.columns {
		if t := c.typeName(); (i == 0 || keyName.MatchString(c.name)) &&
			(t == "INT" || t == "TEXT" || t == "UUID") && len(c.seen) == g.records {
			return []string{c.name}, false, nil
		}
	}
	name := "line"
	for g.column(name) != nil {
		name += "_"
	}
	return []string{name}, true, nil
}

// definition returns the statement that makes the table.
func (g *guessTable) definition(f *ImportFlags) (text, line string, err error) {
	key, made, err := g.key(f.key)
	if err != nil {
		return "", "", err
	}
	types := map[string]string{}
	for _, t := range f.types {
		name, typ, ok := strings.Cut(t, "=")
		if !ok || g.column(name) == nil {
			return "", "", cli.Usage("--type %q is not COLUMN=TYPE of a field of the file", t)
		}
		types[name] = typ
	}
	text = "CREATE TABLE " + cli.QuoteName(f.table) + " ("
	if made {
		line = key[0]
		text += cli.QuoteName(line) + " INT, "
	}
	for _, c := range g.columns {
		typ := types[c.name]
		if typ == "" {
			typ = c.typeName()
		}
		if !slices.Contains(key, c.name) {
			typ += " NULL"
		}
		text += cli.QuoteName(c.name) + " " + typ + ", "
	}
	quoted := make([]string, len(key))
	for i, name := range key {
		quoted[i] = cli.QuoteName(name)
	}
	return text + "PRIMARY KEY (" + strings.Join(quoted, ", ") + "))", line, nil
}

// makeTable creates the table that an import names from the beginning of its input, and shows
// it. It returns the whole input, and the column that takes the numbers of lines, "" for none.
func makeTable(ctx context.Context, a *cli.App, t *cli.Tables, f *ImportFlags, name string,
	in io.Reader) (made *table.Table, whole io.Reader, line string, err error) {
	head, err := io.ReadAll(io.LimitReader(in, sampleBytes))
	if err != nil {
		return nil, nil, "", err
	}
	sample := io.Reader(bytes.NewReader(head))
	if len(head) == sampleBytes { // the last line is not whole
		sample = io.MultiReader(sample, cutOff{})
	}
	var g guessTable
	if err := g.read(f, name, sample); err != nil {
		return nil, nil, "", err
	}
	text, line, err := g.definition(f)
	if err != nil {
		return nil, nil, "", err
	}
	if _, err := t.SQL.Exec(ctx, text); err != nil {
		return nil, nil, "", cli.Advise(err, "--type COLUMN=TYPE gives the type of a column, --key"+
			" the primary key")
	}
	if made, err = t.Find(f.table); err != nil {
		return nil, nil, "", err
	}
	text, err = sql.Definition(made.Schema())
	fmt.Fprint(a.Err, text)
	return made, io.MultiReader(bytes.NewReader(head), in), line, err
}

// cutOff fails where a sample of an input ends.
type cutOff struct{}

var errCutOff = errors.New("the sample ends")

func (cutOff) Read([]byte) (int, error) { return 0, errCutOff }
