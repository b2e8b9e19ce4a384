package present_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/layout"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/present"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/internal/figure"
	"github.com/kstonedb/kstone/internal/testutil"
)

func items(n int, last error) present.Items {
	return func(yield func(engine.Item, error) bool) {
		for i := range n {
			item := engine.Item{Key: engine.Key{PK: []byte("p"), SK: fmt.Appendf(nil, "%05d", i)},
				Value: fmt.Appendf(nil, `{"n":%d}`, i)}
			if !yield(item, nil) {
				return
			}
		}
		if last != nil {
			yield(engine.Item{}, last)
		}
	}
}

func render(t *testing.T, n int, o present.Options) string {
	t.Helper()
	var out bytes.Buffer
	got, err := present.Write(&out, items(n, nil), o)
	if err != nil || got != n {
		t.Fatalf("%d rows, %v", got, err)
	}
	return out.String()
}

func TestTable(t *testing.T) {
	s, err := layout.ParseSchema([]string{"a"}, []string{"b"})
	testutil.OK(t, err)
	want := `╭───┬───────┬───╮
│ a │ b     │ n │
├───┼───────┼───┤
│ p │ 00000 │ 0 │
│ p │ 00001 │ 1 │
╰───┴───────┴───╯
2 rows
`
	if got := render(t, 2, present.Options{Format: present.Table, Schema: s}); got != want {
		t.Errorf("got\n%s", got)
	}
}

// A brief table of many rows shows the first and the last ones, in order.
func TestBriefTable(t *testing.T) {
	for n := range 100 {
		text := render(t, n, present.Options{Format: present.Table, Brief: 40})
		var want []string
		for i := range n {
			if n <= 40 || i < 20 || i >= n-20 {
				want = append(want, fmt.Sprintf("%05d", i))
			}
		}
		var got []string
		for line := range strings.SplitSeq(text, "\n") {
			if cells := strings.Split(line, "│"); len(cells) > 2 &&
				strings.HasPrefix(cells[1], " p") {
				got = append(got, strings.TrimSpace(cells[2]))
			}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Fatalf("%d rows: %q", n, got)
		}
		if strings.Contains(text, "⋮") != (n > 40) || !strings.Contains(text,
			figure.Rows(int64(n))) {
			t.Fatalf("%d rows:\n%s", n, text)
		}
	}
}

// A long table comes in chunks, with every row.
func TestLongTable(t *testing.T) {
	text := render(t, 2500, present.Options{Format: present.Table})
	if n := strings.Count(text, "│ p "); n != 2500 {
		t.Errorf("%d rows", n)
	}
}

// A table fits the terminal: cells lose their middle.
func TestTableWidth(t *testing.T) {
	long := func(yield func(engine.Item, error) bool) {
		yield(engine.Item{Key: engine.Key{PK: []byte(strings.Repeat("日本", 100)),
			SK: []byte("a\x00\x1b[31m")},
			Value: []byte("begin" + strings.Repeat("x", 5000) + "end")}, nil)
	}
	for _, width := range []int{40, 80, 200} {
		var out bytes.Buffer
		if _, err := present.Write(&out, long, present.Options{Format: present.Table,
			Width: width}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(out.String(), "\n"), "\n") {
			if n := runewidth.StringWidth(line); n > width {
				t.Errorf("width %d: %d columns in %s", width, n, line)
			}
		}
		if !strings.Contains(out.String(), "…") || strings.Contains(out.String(), "\x1b") {
			t.Errorf("width %d:\n%s", width, out.String())
		}
	}
}

// An error in the middle ends the output after what came before it.
func TestErrorOfItems(t *testing.T) {
	boom := errors.New("boom")
	for _, f := range present.Formats {
		var out bytes.Buffer
		n, err := present.Write(&out, items(2, boom), present.Options{Format: f})
		if !errors.Is(err, boom) || n != 2 || f != present.JSON &&
			!strings.Contains(out.String(), "0000") &&
			f != present.Raw && f != present.Hex {
			t.Errorf("%s: %d, %v\n%s", f, n, err, out.String())
		}
	}
}

func TestHeatMap(t *testing.T) {
	var counts [256]int64
	if text := present.HeatMap(&counts, "items", false); !strings.Contains(text,
		"all 256 stripes are empty") {
		t.Errorf("empty:\n%s", text)
	}
	counts[0], counts[17], counts[255] = 1, 400, 1600
	text := present.HeatMap(&counts, "items", false)
	lines := strings.Split(text, "\n")
	for _, c := range []struct {
		line, col int
		want      string
	}{{1, 0, "░░"}, {2, 1, "▒▒"}, {16, 15, "██"}, {1, 1, "·"}} {
		cells := []rune(lines[c.line])[6:]
		if got := strings.TrimSpace(string(cells[3*c.col : 3*c.col+2])); got != c.want {
			t.Errorf("cell %d/%d is %q, want %q", c.line, c.col, got, c.want)
		}
	}
	if !strings.Contains(text, "3 of 256 stripes used · fullest 255 with 1,600 (80.0 %)") {
		t.Errorf("\n%s", text)
	}
	if text := present.HeatMap(&counts, "items", true); !strings.Contains(text, "\x1b[31m██") {
		t.Errorf("no red in\n%s", text)
	}
}

// TestPlansAreWrapped writes a plan at several widths: nothing is lost, and lines keep to the width
// as far as words allow.
func TestPlansAreWrapped(t *testing.T) {
	plan := []string{
		"project | columns: o.note, p.name | rows ~100 cost ~153µs",
		"├─ index scan orders | index: by_created (created) | spans: created >= 635474 AND " +
			"created < 635537 | fetch rows | rows ~10 cost ~14.2µs",
		"│  └─ " + strings.Repeat("word ", 40) + "| end",
		"└─ " + strings.Repeat("x", 150),
	}
	words := func(text string) string {
		return strings.Join(strings.Fields(strings.NewReplacer("│", "", "├─", "", "└─", "").
			Replace(text)), " ")
	}
	for _, width := range []int{0, 20, 40, 60, 80, 200} {
		var b bytes.Buffer
		r := present.Result{Rows: func(yield func([]expr.Value, error) bool) {
			for _, line := range plan {
				yield([]expr.Value{expr.String(line)}, nil)
			}
		}}
		testutil.OK(t, present.Lines(&b, r, width))
		if got, want := words(b.String()), words(strings.Join(plan, " ")); got != want {
			t.Errorf("width %d: %s\nnot %s", width, got, want)
		}
		for line := range strings.Lines(b.String()) {
			n := runewidth.StringWidth(strings.TrimRight(line, "\n"))
			if width >= 40 && n > width && !strings.Contains(line, "xxx") {
				t.Errorf("width %d: %d columns: %s", width, n, line)
			}
		}
		if width == 80 {
			t.Log("\n" + b.String())
		}
	}
}
