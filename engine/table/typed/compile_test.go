package typed_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
)

// TestWrongTypesDoNotCompile: a wrong table, column or value is found by the compiler.
func TestWrongTypesDoNotCompile(t *testing.T) {
	testutil.SlowUnderRace(t, "runs the compiler")
	source, err := os.ReadFile("testdata/wrongtypes/wrong.go")
	ok(t, err)
	// -e is for all errors instead of ten.
	out, err := exec.Command("go", "build", "-gcflags=-e", "./testdata/wrongtypes").CombinedOutput()
	if err == nil || bytes.Contains(out, []byte("cannot find")) {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, line := range strings.Split(string(source), "\n") {
		at := fmt.Sprintf("wrong.go:%d:", i+1)
		if want := strings.HasSuffix(line, "// error"); want != bytes.Contains(out, []byte(at)) {
			t.Errorf("line %d: an error is wanted: %t\n%s\n%s", i+1, want, line, out)
		}
	}
}
