package testutil_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/testutil"
)

// drawnEnv makes TestDrawn draw.
const drawnEnv = "KSTONE_TEST_DRAWN"

// TestDrawn logs what it draws. TestSeeds runs it in processes of its own.
func TestDrawn(t *testing.T) {
	if os.Getenv(drawnEnv) == "" {
		t.Skip("TestSeeds runs it")
	}
	t.Run("two words", func(t *testing.T) {
		t.Logf("drawn %d", testutil.Rand(t).Uint64())
	})
	t.Run("rapid", func(t *testing.T) {
		var all []uint64
		testutil.Check(t, func(r *rapid.T) { all = append(all, rapid.Uint64().Draw(r, "n")) })
		t.Logf("drawn %x", all)
	})
}

// drawn runs TestDrawn and returns what it logs.
func drawn(seed string, flags ...string) (string, error) {
	cmd := exec.Command(os.Args[0], append(flags, "-test.v", "-test.run=^TestDrawn$")...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool {
		return strings.HasPrefix(s, "KSTONE_")
	})
	cmd.Env = append(cmd.Env, drawnEnv+"=1", "KSTONE_SEED="+seed)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Runs draw the same numbers, KSTONE_SEED changes them, and the commands that are logged draw
// them again.
//
// Promise (tests): Every run of a test draws the same numbers; `KSTONE_SEED` changes them, and
// the command that a test logs repeats them. Also `TestBadSeed` in `internal/testutil`,
// `TestForbidden` in `internal/tidy`.
func TestSeeds(t *testing.T) {
	numbers := func(seed string, flags ...string) (drawnBy [2]string, log string) {
		t.Helper()
		log, err := drawn(seed, flags...)
		found := regexp.MustCompile(`drawn (.*)`).FindAllStringSubmatch(log, -1)
		if err != nil || len(found) != 2 {
			t.Fatalf("%v\n%s", err, log)
		}
		return [2]string{found[0][1], found[1][1]}, log
	}
	fixed, _ := numbers("")
	if again, _ := numbers(""); again != fixed {
		t.Errorf("drew %q, then %q", fixed, again)
	}
	seed := regexp.MustCompile(`KSTONE_SEED=(\d+) ` + drawnEnv + `=1 go test -count=1 .*` +
		`-run '\^TestDrawn\$/\^two_words\$' github.com/kstonedb/kstone/internal/testutil\n`)
	rapidSeed := regexp.MustCompile(`: ` + drawnEnv + `=1 go test -count=1 .*` +
		`-run '\^TestDrawn\$/\^rapid\$' \S+/testutil (-rapid\.seed=\d+)\n`)
	for _, setting := range []string{"", "1", "12345678901234567890"} {
		want, log := numbers(setting)
		a, b := seed.FindStringSubmatch(log), rapidSeed.FindStringSubmatch(log)
		if a == nil || b == nil {
			t.Fatalf("no commands to repeat in\n%s", log)
		}
		if setting != "" && (want[0] == fixed[0] || want[1] == fixed[1]) {
			t.Errorf("KSTONE_SEED=%s draws %q, as without it", setting, want)
		}
		if got, _ := numbers(a[1]); got[0] != want[0] {
			t.Errorf("%s draws %s, want %s", a[0], got[0], want[0])
		}
		if got, _ := numbers("", b[1]); got[1] != want[1] {
			t.Errorf("%s draws %s, want %s", b[0], got[1], want[1])
		}
	}
}

// A seed that is no number is an error that names the variable.
func TestBadSeed(t *testing.T) {
	out, err := drawn("random")
	if err == nil || !strings.Contains(out, `KSTONE_SEED="random" is not a seed: set a number`) {
		t.Errorf("%v\n%s", err, out)
	}
}
