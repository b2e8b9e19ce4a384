package sql_test

import (
	"os"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
)

// TestFunctionsAreDocumented checks that the reference names every function.
func TestFunctionsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/sql.md")
	ok(t, err)
	for _, name := range expr.Functions() {
		if !strings.Contains(string(page), "`"+name+"(") {
			t.Errorf("docs/sql.md has no %s: %s", name, expr.FuncUsage(name))
		}
	}
}
