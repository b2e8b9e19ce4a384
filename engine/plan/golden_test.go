package plan_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
)

// runGolden runs a file of testdata/explain. Its commands:
//
//	schema          CREATE TABLE and CREATE INDEX statements, separated by semicolons
//	stats           TABLE and statistics as JSON
//	explain         a SELECT; params=(…) are its parameters; refuse; noindex
//	prepare         a SELECT, kept for the following binds
//	bind            a list of parameters, one a line
func runGolden(t *testing.T, name string) {
	t.Helper()
	w := newCatalog(t)
	var kept *plan.Prepared
	path := filepath.Join("testdata", "explain", name)
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		opt := plan.Options{Stats: w, RefuseFullScan: d.HasArg("refuse")}
		switch d.Cmd {
		case "schema":
			for _, s := range strings.Split(d.Input, ";") {
				if strings.TrimSpace(s) != "" {
					w.exec(s)
				}
			}
			return ""
		case "stats":
			return w.setStats(d.Input)
		case "explain":
			sel := w.query(d.Input)
			sel.Hints.NoIndex = d.HasArg("noindex")
			d.MaybeScanArgs(t, "join", &sel.Hints.ForceJoin)
			p, err := plan.Prepare(sel, opt)
			if err != nil {
				return err.Error() + "\n"
			}
			var params []string
			for _, a := range d.CmdArgs {
				if a.Key == "params" {
					params = a.Vals
				}
			}
			return bound(p, params)
		case "prepare":
			p, err := plan.Prepare(w.query(d.Input), opt)
			if err != nil {
				return err.Error() + "\n"
			}
			kept = p
			return fmt.Sprintf("parameters: %d, point: %v\n", p.Params(),
				p.Physical() != nil && p.Physical().Point)
		case "bind":
			return bound(kept, strings.Fields(d.Input))
		}
		t.Fatalf("no command %q", d.Cmd)
		return ""
	})
}

func (w *catalog) setStats(input string) string {
	name, text, _ := strings.Cut(input, "\n")
	s := &plan.TableStats{}
	if err := json.Unmarshal([]byte(text), s); err != nil {
		return err.Error() + "\n"
	}
	w.stats[strings.TrimSpace(name)] = s
	return ""
}

func bound(p *plan.Prepared, params []string) string {
	values := make([]expr.Value, len(params))
	for i, text := range params {
		values[i] = parameter(text)
	}
	b, err := p.Bind(values)
	if err != nil {
		return err.Error() + "\n"
	}
	return b.Explain().String()
}

// parameter reads an integer, NULL, [1,2] or a text.
func parameter(text string) expr.Value {
	var i int64
	switch {
	case text == "NULL":
		return expr.Null()
	case strings.HasPrefix(text, "["):
		var items []expr.Value
		for _, s := range strings.Split(strings.Trim(text, "[]"), "+") {
			items = append(items, parameter(s))
		}
		return expr.List(items)
	}
	if _, err := fmt.Sscanf(text, "%d", &i); err == nil {
		return expr.Int(i)
	}
	return expr.String(text)
}
