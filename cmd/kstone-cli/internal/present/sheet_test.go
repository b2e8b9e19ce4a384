package present_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
)

func result(columns, rows int) present.Result {
	r := present.Result{}
	for i := range columns {
		r.Names = append(r.Names, fmt.Sprintf("column_%d", i))
	}
	r.Rows = func(yield func([]expr.Value, error) bool) {
		for n := range rows {
			row := make([]expr.Value, columns)
			for i := range row {
				row[i] = expr.String(strings.Repeat("x", 1+n/700) + fmt.Sprint(n))
			}
			if !yield(row, nil) {
				return
			}
		}
	}
	return r
}

func renderRows(t *testing.T, r present.Result, o present.Options) string {
	t.Helper()
	var out bytes.Buffer
	if _, err := present.WriteRows(&out, r, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A table of any length is one table: a frame, a heading, and columns that keep their widths.
//
// Promise (manners): A long result is one table whose columns keep their places; on a terminal
// it shows its start and its end, and is vertical where columns do not fit.
func TestOneTable(t *testing.T) {
	text := renderRows(t, result(2, 3000), present.Options{Format: present.Table})
	lines := strings.Split(text, "\n")
	if n := strings.Count(text, "╭"); n != 1 || strings.Count(text, "column_0") != 1 {
		t.Errorf("%d tables", n)
	}
	for _, line := range lines[1:3003] {
		if len([]rune(line)) != len([]rune(lines[0])) {
			t.Fatalf("%q beside %q", line, lines[0])
		}
	}
	brief := renderRows(t, result(2, 3000), present.Options{Format: present.Table, Brief: 10})
	if n := strings.Count(brief, "\n"); n != 10+6 || !strings.Contains(brief, "2999") ||
		!strings.Contains(brief, "3,000 rows (10 shown)") {
		t.Errorf("%d lines:\n%s", n, brief)
	}
}

// A table that cannot fit is vertical, but only if nobody asked for a table.
func TestVerticalByItself(t *testing.T) {
	for auto, want := range map[bool]bool{true: true, false: false} {
		text := renderRows(t, result(25, 1), present.Options{Format: present.Table, Width: 80,
			Auto: auto})
		if got := strings.Contains(text, "column_24  x0\n"); got != want {
			t.Errorf("auto %v:\n%s", auto, text)
		}
	}
	if text := renderRows(t, result(4, 1), present.Options{Format: present.Table, Width: 80,
		Auto: true}); !strings.Contains(text, "╭") {
		t.Errorf("four columns fit, but\n%s", text)
	}
}

// Of a long list whose end can be read from the other side, the middle is not read.
func TestFarEnd(t *testing.T) {
	const all = 100_000
	read := 0
	count := func(from, n, step int) present.Items {
		return func(yield func(engine.Item, error) bool) {
			for i := range n {
				read++
				key := engine.Key{PK: fmt.Appendf(nil, "%06d", from+step*i)}
				if !yield(engine.Item{Key: key, Value: []byte("v")}, nil) {
					return
				}
			}
		}
	}
	var out bytes.Buffer
	_, err := present.Write(&out, count(0, all, 1), present.Options{Format: present.Table,
		Brief: 4, About: func() int64 { return 99_999 },
		Last: func(n int) present.Items { return count(all-1, n, -1) }})
	if err != nil || read > 10 {
		t.Fatalf("%d read, %v", read, err)
	}
	want := `╭────────┬───────╮
│ PK     │ value │
├────────┼───────┤
│ 000000 │ v     │
│ 000001 │ v     │
│ ⋮      │ ⋮     │
│ 099998 │ v     │
│ 099999 │ v     │
╰────────┴───────╯
about 99,999 rows (4 shown)
`
	if out.String() != want {
		t.Errorf("got\n%s", &out)
	}
}

// Cells of TSV keep tabs and line feeds apart from those of the form, and NULL from texts.
func TestTSV(t *testing.T) {
	r := present.Result{Names: []string{"a\t", "b"},
		Rows: func(yield func([]expr.Value, error) bool) {
			_ = yield([]expr.Value{expr.String("t\t\n\\"), expr.Null()}, nil) &&
				yield([]expr.Value{expr.List([]expr.Value{expr.String("\t")}),
					expr.String(`\N`)}, nil)
		}}
	if got := renderRows(t, r, present.Options{Format: present.TSV}); got !=
		"a\\t\tb\nt\\t\\n\\\\\t\\N\n"+`["\\t"]`+"\t\\\\N\n" {
		t.Errorf("%q", got)
	}
}
