package tidy_test

import (
	"go/ast"
	"testing"
)

func TestFuzzTargetsAreWatched(t *testing.T) { report(t, checkFuzzTargets(loadTree(t))) }

// checkFuzzTargets wants every fuzz target to begin with testutil.Watch: to the fuzzing engine an
// input that takes for ever is no failure.
func checkFuzzTargets(files tree) []finding {
	parsed, found := files.goFiles()
	for _, g := range parsed {
		if !g.isTest() {
			continue
		}
		ast.Inspect(g.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 1 || selected(call.Fun) != "Fuzz" {
				return true
			}
			if fn, ok := call.Args[0].(*ast.FuncLit); ok && !watched(fn.Body.List) {
				found = append(found, g.find(call.Pos(),
					"a fuzz target begins with `defer testutil.Watch(input)()`"))
			}
			return true
		})
	}
	return found
}

func watched(body []ast.Stmt) bool {
	if len(body) == 0 {
		return false
	}
	d, ok := body[0].(*ast.DeferStmt)
	if !ok {
		return false
	}
	call, ok := d.Call.Fun.(*ast.CallExpr)
	return ok && selected(call.Fun) == "Watch"
}

// selected returns the name after the dot of x.name.
func selected(e ast.Expr) string {
	if sel, ok := e.(*ast.SelectorExpr); ok {
		return sel.Sel.Name
	}
	return ""
}
