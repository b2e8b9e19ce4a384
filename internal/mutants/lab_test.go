package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
)

var ok = testutil.OK

// TestMutantsOfAModule draws from a module whose tests see one function and not the other,
// is interrupted after some mutants, and goes on.
func TestMutantsOfAModule(t *testing.T) {
	testutil.SlowUnderRace(t, "compiles a module several times")
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{
		"go.mod": "module m\n\ngo 1.26\n",
		"p/p.go": "package p\n\nfunc Seen(a int) bool { return a < 5 }\n\n" +
			"func Unseen(a int) bool { return a > 5 }\n",
		"p/p_test.go": "package p\n\nimport \"testing\"\n\n" +
			"func TestSeen(t *testing.T) {\n\tif !Seen(4) || Seen(5) {\n\t\tt.Fail()\n\t}\n}\n",
	} {
		ok(t, os.MkdirAll(filepath.Dir(name), 0o755))
		ok(t, os.WriteFile(name, []byte(content), 0o644))
	}
	for _, n := range []int{2, 10} {
		ok(t, run(context.Background(), 1, n, "out.jsonl", []string{"./p"}))
	}
	b, err := os.ReadFile("out.jsonl")
	ok(t, err)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d verdicts of 4 mutants:\n%s", len(lines), b)
	}
	for _, line := range lines {
		seen := strings.Contains(line, `"Line":3,`)
		if seen != strings.Contains(line, `"Outcome":"noticed"`) ||
			seen == strings.Contains(line, `"Outcome":"survived"`) {
			t.Errorf("verdict %s", line)
		}
	}
}
