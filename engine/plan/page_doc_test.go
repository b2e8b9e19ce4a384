package plan_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/plan"
)

var example = regexp.MustCompile("(?s)```sql\n(.*?)```\n\n```text\n(.*?)```")

// TestPlannerPage plans the examples of docs/planner.md. With -rewrite it writes the plans
// into the page.
//
// Promise (plans): The plans in [planner.md](planner.md) are those of the planner.
func TestPlannerPage(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "planner.md")
	page := string(must(os.ReadFile(path)))
	w := newCatalog(t)
	examples := 0
	rewritten := example.ReplaceAllStringFunc(page, func(block string) string {
		examples++
		parts := example.FindStringSubmatch(block)
		shown := ""
		for _, s := range strings.Split(parts[1], ";") {
			s = strings.TrimSpace(s)
			query, explain := strings.CutPrefix(s, "EXPLAIN ")
			switch {
			case explain:
				p := must(must(plan.Prepare(w.query(query), plan.Options{})).Bind(nil))
				shown = wrapped(p.Explain().String())
			case s != "":
				w.exec(s)
			}
		}
		return "```sql\n" + parts[1] + "```\n\n```text\n" + shown + "```"
	})
	if examples < 7 {
		t.Fatalf("%d examples are found", examples)
	}
	if f := flag.Lookup("rewrite"); f != nil && f.Value.String() == "true" {
		ok(t, os.WriteFile(path, []byte(rewritten), 0o644))
	} else if rewritten != page {
		t.Errorf("docs/planner.md differs from the plans, which are:\n%s", rewritten)
	}
}

// wrapped breaks the lines of a plan before attributes, since a page has 120 columns.
func wrapped(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		width := 0
		for i, part := range strings.Split(strings.TrimSuffix(line, "\n"), " | ") {
			n := len([]rune(part)) + 3
			switch {
			case i > 0 && width+n > 110:
				b.WriteString("\n      | ")
				width = 8
			case i > 0:
				b.WriteString(" | ")
			}
			b.WriteString(part)
			width += n
		}
		b.WriteByte('\n')
	}
	return b.String()
}
