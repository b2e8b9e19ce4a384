package testutil

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// seedEnv is the seed of all tests of a run. Without it the seed of a test comes from its
// name: an ordinary run of the tests draws the same numbers every time, so that it passes or
// fails by the code and not by luck. `make stress` and `make nightly` draw seeds and set it.
const seedEnv = "KSTONE_SEED"

// Seed returns the seed of a test's random numbers, and logs the command that repeats them.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := seedFor(t, t.Name())
	t.Logf("repeat with: %s", Repeat(t, seed))
	return seed
}

// Drawn reports whether the run has a seed of its own, not those of an ordinary run.
func Drawn() bool { return os.Getenv(seedEnv) != "" }

// Rand returns random numbers that begin with the Seed of a test.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Seed(t), 0))
}

// Check is rapid.Check with a seed like that of Seed, and as often as the effort says. Rapid
// takes both from flags of the process, so all properties of a package share the seed; the flags
// -rapid.seed and -rapid.checks override them.
func Check(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if checks.Value.String() == checks.DefValue {
		ci := 100
		if raceEnabled {
			ci = 20
		}
		if err := checks.Value.Set(strconv.Itoa(Effort(ci, 500))); err != nil {
			t.Fatal(err)
		}
	}
	f := flag.Lookup("rapid.seed")
	if f.Value.String() == "0" {
		// Rapid itself draws a seed for 0, hence the bit.
		seed := seedFor(t, "rapid") | 1
		if err := f.Value.Set(strconv.FormatUint(seed, 10)); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("repeat with: %s -rapid.seed=%s", goTest(t, nil), f.Value)
	rapid.Check(t, property)
}

// seedFor returns KSTONE_SEED, or without it a number that name alone decides.
func seedFor(t testing.TB, name string) uint64 {
	t.Helper()
	setting := os.Getenv(seedEnv)
	if setting == "" {
		h := fnv.New64a()
		_, _ = h.Write([]byte(name))
		return h.Sum64()
	}
	seed, err := strconv.ParseUint(setting, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q is not a seed: set a number from 0 to 2^64-1, or nothing", seedEnv, setting)
	}
	return seed
}

// Repeat returns the command that runs a test again with a seed, the present settings (KSTONE
// variables, -race, -tags) and others, given as NAME=VALUE, in their place.
func Repeat(t testing.TB, seed uint64, settings ...string) string {
	return goTest(t, append([]string{fmt.Sprintf("%s=%d", seedEnv, seed)}, settings...))
}

// goTest returns the command that runs a test.
func goTest(t testing.TB, settings []string) string {
	words := settings
	env := os.Environ()
	slices.Sort(env)
	for _, s := range env {
		name, _, _ := strings.Cut(s, "=")
		replaced := slices.ContainsFunc(settings, func(s string) bool {
			return strings.HasPrefix(s, name+"=")
		})
		if strings.HasPrefix(name, "KSTONE_") && name != seedEnv && !replaced {
			words = append(words, s)
		}
	}
	words = append(words, "go test -count=1")
	pkg := "."
	if info, ok := debug.ReadBuildInfo(); ok {
		pkg = strings.TrimSuffix(info.Path, ".test")
		for _, s := range info.Settings {
			switch s.Key {
			case "-race":
				words = append(words, "-race")
			case "-tags":
				words = append(words, "-tags "+s.Value)
			}
		}
	}
	return strings.Join(append(words, "-run '"+pattern(t.Name())+"'", pkg), " ")
}

// pattern returns the value of -run that selects a test, which may be a subtest.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}
