package testutil

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

// effortEnv is how much the tests of a run do: without it what fits into `make test`, with
// "nightly" the full sizes of `make nightly`, with a number so many times an ordinary run.
const effortEnv = "KSTONE_EFFORT"

// maxEffort bounds the factor, so that no size overflows.
const maxEffort = 1000

// Effort returns how many rounds, items or operations a test runs: ci in an ordinary run,
// nightly in a nightly one, and KSTONE_EFFORT times ci, at least one, if that is a number. A
// step between cases is divided by it: 60 / testutil.Effort(1, 60).
func Effort(ci, nightly int) int {
	switch setting := os.Getenv(effortEnv); setting {
	case "":
		return ci
	case "nightly":
		return nightly
	default:
		factor, err := strconv.ParseFloat(setting, 64)
		if err != nil || !(factor >= 0 && factor <= maxEffort) {
			panic(fmt.Sprintf("%s=%q is not an effort: set nightly, a factor from 0 to %d, or "+
				"nothing", effortEnv, setting, maxEffort))
		}
		return max(1, int(factor*float64(ci)))
	}
}

// SkipUnderRace skips the rest of a test under the race detector, which changes what the test
// measures. `make test` runs all tests that name SkipUnderRace or SlowUnderRace without the race
// detector, too; so only the test functions themselves call them.
func SkipUnderRace(t testing.TB, reason string) {
	t.Helper()
	if raceEnabled {
		t.Skip("under the race detector: " + reason)
	}
}

// SlowUnderRace is SkipUnderRace for tests in which the race detector finds little for the time
// that it takes. With more effort than that of `make test` they run.
func SlowUnderRace(t testing.TB, reason string) {
	t.Helper()
	if Effort(1, 2) == 1 {
		SkipUnderRace(t, reason)
	}
}
