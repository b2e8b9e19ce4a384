package bulk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

var ok = testutil.OK

// inMemory returns an app with an empty database in memory, and its tables.
func inMemory(t *testing.T) (*cli.App, *cli.Tables) {
	t.Helper()
	a := &cli.App{Out: io.Discard, Err: io.Discard}
	db, err := a.OpenDB("memory", cli.Create, &engine.Options{InMemory: true})
	ok(t, err)
	t.Cleanup(func() { ok(t, db.Close()) })
	a.Open = db
	all, err := a.OpenTables(context.Background(), db)
	ok(t, err)
	return a, all
}

// execAll runs statements with semicolons between them.
func execAll(ctx context.Context, t *cli.Tables, text string) error {
	parts, err := t.SQL.PrepareParts(text)
	for _, stmt := range parts {
		if err == nil {
			_, err = stmt.Exec(ctx)
		}
	}
	return err
}

var columnTypes = strings.Fields("TEXT BYTES INT INT32 INT8 UINT64 UINT16 BOOL FLOAT FLOAT32 " +
	"DECIMAL DECIMAL(9,2) TIMESTAMP(s) TIMESTAMP(ms) TIMESTAMP(us) TIMESTAMP(ns) " +
	"TIMESTAMP(full) UUID IP IPPREFIX")

var columnNames = []string{"a", "Ä", "order", "x y", `q"`, "n:number", "j:json", "a,b", "null",
	"ttl", "it's", "line\nbreak"}

// drawDefinition draws CREATE TABLE and CREATE INDEX for a table t.
func drawDefinition(r *rapid.T) string {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom(columnNames), 3, 7,
		rapid.ID[string]).Draw(r, "names")
	key := cli.QuoteName(names[0])
	text := "CREATE TABLE \"t'\" (" + key + " INT, "
	for i, name := range names[1:] {
		text += cli.QuoteName(name) + " " + rapid.SampledFrom(columnTypes).Draw(r, "type")
		if i > 0 && rapid.IntRange(0, 3).Draw(r, "list") == 0 {
			text += "[]"
		}
		if rapid.Bool().Draw(r, "null") || i == 0 {
			text += " NULL"
		}
		text += ", "
	}
	text += "PRIMARY KEY (" + key + "));"
	if rapid.Bool().Draw(r, "index") {
		text += fmt.Sprintf("CREATE INDEX %s ON \"t'\" (%s DESC, %s) SHARD (3) WHERE %s > 2;",
			cli.QuoteName(names[1]), cli.QuoteName(names[1]), key, key)
	}
	return text
}

var oddTexts = []string{"", "NULL", "null", "a", "it's", `q"uote`, "a,b", "x\ny", "x\r\ny", "\r",
	" blank ", "\x00", "\x01\x02\x03\x04\x05\x06\x07\x0e", `{"$b64":"AA=="}`, `{"$b64":"AA==`,
	"[1,2]", `{"a":1}`, "-- no comment", "; x", "ü€😀", "1e5", "true", "@1.000000000", "\ufeff",
	"\xff\xfe", `\N`, `\`, "/* x"}

// integersOf returns those of the ends of all widths, with and without sign, that a column holds.
func integersOf(c *schema.Column) []expr.Value {
	ends := []expr.Value{expr.Int(0), expr.Int(7), expr.Uint(math.MaxUint64)}
	for bits := 7; bits < 64; bits++ {
		ends = append(ends, expr.Int(1<<bits-1), expr.Int(-1<<bits))
	}
	return slices.DeleteFunc(ends, func(v expr.Value) bool {
		_, err := c.Convert(v)
		return err != nil
	})
}

// drawValue draws a value of a column, edges among them.
func drawValue(r *rapid.T, c *schema.Column) expr.Value {
	if c.Nullable && rapid.IntRange(0, 4).Draw(r, "null") == 0 {
		return expr.Null()
	}
	if c.List {
		element := *c
		element.List, element.Nullable = false, false
		return expr.List(rapid.SliceOfN(rapid.Custom(func(r *rapid.T) expr.Value {
			return drawValue(r, &element)
		}), 0, 3).Draw(r, "list"))
	}
	var v expr.Value
	switch c.Kind() {
	case expr.KindString:
		v = expr.String(rapid.OneOf(rapid.SampledFrom(oddTexts), rapid.String()).Draw(r, "text"))
	case expr.KindBytes:
		v = expr.Bytes(rapid.OneOf(rapid.SliceOf(rapid.Byte()),
			rapid.Map(rapid.SampledFrom(oddTexts), func(s string) []byte { return []byte(s) }),
		).Draw(r, "bytes"))
	case expr.KindInt, expr.KindUint:
		v = rapid.SampledFrom(integersOf(c)).Draw(r, "int")
	case expr.KindBool:
		v = expr.Bool(rapid.Bool().Draw(r, "bool"))
	case expr.KindFloat:
		v = expr.Float(rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(),
			math.Inf(1), math.Inf(-1), 5e-324, math.MaxFloat64, 0.1, 1e21, 100,
			1<<53 + 2})).Draw(r, "float"))
		if c.Type == keycodec.TypeFloat32 {
			f, _ := v.AsFloat()
			v = expr.Float(float64(float32(f)))
		}
	case expr.KindDecimal:
		texts := []string{"0", "-1.25", "12345678901.01", "7"}
		if c.Type == keycodec.TypeDecimal {
			texts = append(texts, "1E+30", "-3E-40", "123456789012345678901234567890.123")
		}
		d, err := keycodec.ParseDecimal(rapid.SampledFrom(texts).Draw(r, "decimal"))
		ok(r, err)
		v = expr.Decimal(d)
	case expr.KindTime:
		seconds := rapid.OneOf(rapid.Int64Range(-9e9, 9e9), rapid.SampledFrom([]int64{0, -1,
			1})).Draw(r, "seconds")
		if c.Unit == keycodec.FullRange || c.Unit == keycodec.Second {
			seconds = rapid.OneOf(rapid.Just(seconds), rapid.SampledFrom([]int64{253402300799,
				253402300800, -62167219201, math.MinInt64})).Draw(r, "far")
		}
		v = expr.UnixTime(seconds, uint32(rapid.IntRange(0, 999999999).Draw(r, "nanos")))
	case expr.KindUUID:
		v = expr.UUID(keycodec.UUID{15: rapid.Byte().Draw(r, "uuid")})
	case expr.KindIP:
		v = expr.IP(netip.MustParseAddr(rapid.SampledFrom([]string{"10.0.0.1", "::1",
			"::ffff:1.2.3.4"}).Draw(r, "ip")))
	case expr.KindIPPrefix:
		v = expr.Prefix(netip.MustParsePrefix(rapid.SampledFrom([]string{"10.0.0.0/8",
			"2001:db8::/32"}).Draw(r, "prefix")))
	}
	converted, err := c.Convert(v)
	if err != nil {
		r.Fatalf("%s: %v: %v", c, v, err)
	}
	return converted
}

// contents returns the definition of a table and its rows in the order of their keys.
func contents(r *rapid.T, t *cli.Tables, name string) string {
	found, err := t.Find(name)
	ok(r, err)
	plain := *found.Schema()
	plain.ID, plain.Version = 0, 1
	def, err := json.Marshal(&plain)
	ok(r, err)
	rows, err := t.SQL.Query(context.Background(), "SELECT * FROM "+cli.QuoteName(name))
	ok(r, err)
	lines := []string{}
	for row, err := range rows.All() {
		ok(r, err)
		lines = append(lines, fmt.Sprintf("%q", appendRowLiteral(nil, row)))
	}
	slices.Sort(lines)
	report, err := found.Verify(context.Background(), nil)
	ok(r, err)
	return fmt.Sprintf("%s\n%s\n%v", def, strings.Join(lines, "\n"), *report)
}

// TestExportDumpAndImportMakeTheSameTable: rows that are exported and imported, and tables
// that are dumped and loaded, are the same.
//
// Promise (manners): A table that is dumped and loaded, or exported as JSON lines or CSV and
// imported, has the same rows of every type. Also scripts `dump`, `tablefiles`.
func TestExportDumpAndImportMakeTheSameTable(t *testing.T) {
	a, all := inMemory(t)
	ctx := context.Background()
	run := func(r *rapid.T, text string) {
		if err := execAll(ctx, all, text); err != nil {
			r.Fatalf("%s\n%v", text, err)
		}
	}
	testutil.Check(t, func(r *rapid.T) {
		run(r, `DROP TABLE IF EXISTS "t'"`)
		definition := drawDefinition(r)
		run(r, definition)
		found, err := all.Find("t'")
		ok(r, err)
		for n := range rapid.IntRange(0, 6).Draw(r, "rows") {
			row := found.Schema().Row()
			row[0] = expr.Int(int64(n))
			for i := range row[1:] {
				row[i+1] = drawValue(r, &found.Schema().Columns[i+1])
			}
			ok(r, found.Put(ctx, row))
		}
		want := contents(r, all, "t'")
		var text bytes.Buffer
		b := *a
		b.Out = &text
		ok(r, dump(ctx, &b, all, []string{"t'"}))
		run(r, `DROP TABLE "t'"`)
		run(r, text.String())
		if got := contents(r, all, "t'"); got != want {
			r.Fatalf("dump\n%s\nmakes\n%s\nwant\n%s", text.String(), got, want)
		}
		for _, format := range []string{"jsonl", "csv"} {
			var file bytes.Buffer
			b := *a
			b.Out, b.Format = &file, format
			ok(r, exportTable(ctx, &b, all, "t'"))
			run(r, `DROP TABLE "t'"`)
			run(r, definition)
			f := ImportFlags{Format: format, Delimiter: ",", Shown: 9, table: "t'"}
			var problems bytes.Buffer
			b.Format, b.Out, b.Err = "", io.Discard, &problems
			text := file.String()
			if err := importTable(ctx, &b, all, &f, "file", &file, -1); err != nil {
				r.Fatalf("%s\n%v\n%s", text, err, problems.String())
			}
			if got := contents(r, all, "t'"); got != want {
				r.Fatalf("%s\n%s\nmakes\n%s\nwant\n%s", format, text, got, want)
			}
		}
	})
}
