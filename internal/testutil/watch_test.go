package testutil_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
)

// TestWatch: an input that is never finished ends the process, and is shown.
//
// Promise (tests): A fuzz input that takes for ever fails. Also `TestFuzzTargetsAreWatched` in
// `internal/tidy`.
func TestWatch(t *testing.T) {
	if os.Getenv("KSTONE_WATCH") != "" {
		defer testutil.Watch([]byte("never finished"))()
		select {}
	}
	testutil.Watch("finished")()
	cmd := exec.Command(os.Args[0], "-test.run=^TestWatch$", "-test.timeout=1m")
	cmd.Env = append(os.Environ(), "KSTONE_WATCH=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the input takes more than") ||
		!strings.Contains(string(out), "0x6e, 0x65, 0x76") {
		t.Fatalf("got %v:\n%s", err, out)
	}
}
