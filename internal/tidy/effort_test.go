package tidy_test

import (
	"bytes"
	"go/ast"
	"go/build/constraint"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// testEnv are the variables that tests may read, each for the reason given. A size is no
// reason: testutil.Effort gives it.
var testEnv = map[string]string{
	"KSTONE_SEED":   "the seed of a run",
	"KSTONE_EFFORT": "the sizes of a run",

	"KSTONE_CANARY":          "takes minutes; the bug to begin with",
	"KSTONE_POWERCUT_CYCLES": "takes root and devices; the number of cycles",
	"KSTONE_SOAK":            "takes a disk; the time",
	"KSTONE_ORACLES":         "takes minutes; the time",
	"KSTONE_REGRET_ROWS":     "takes minutes; the number of rows",
	"KSTONE_SCALE":           "takes a disk; the number of items",
	"KSTONE_HUGE":            "takes gigabytes of memory",
	"KSTONE_SQL_ALL":         "takes hours; every city",
	"KSTONE_GOLDEN_DB":       "writes into testdata",
	"KSTONE_PROGRAM":         "the file of a program to repeat",
	"KSTONE_TIKV":            "takes a cluster; the URL of a database in it",

	"KSTONE_HISTORY": "a setting of the command line",
	"KSTONE_SHELLRC": "a setting of the command line",

	"KSTONE_BESIDE_DIR":      "for a child process",
	"KSTONE_BESIDE_ROLE":     "for a child process",
	"KSTONE_SMALL_DIR":       "for a child process",
	"KSTONE_SMALL_RUN":       "for a child process",
	"KSTONE_SWAP_DIR":        "for a child process",
	"KSTONE_DESCRIPTORS_DIR": "for a child process",
	"KSTONE_RESIDENT_DIR":    "for a child process",
	"KSTONE_PLAIN_WRITER":    "for a child process",
	"KSTONE_TEST_DRAWN":      "for a child process",
	"KSTONE_WATCH":           "for a child process",
	"KSTONE_BENCH_ACCIDENT":  "for a child process",
}

// envName matches the name of a variable, or a setting of it, in a literal.
var envName = regexp.MustCompile(`"(KSTONE_[A-Z_]+)[="]`)

// raceSkip matches the calls that tools/tests.sh looks for.
var raceSkip = regexp.MustCompile(`(?m)^\t+testutil\.(Skip|Slow)UnderRace\(t, `)

// Promise (tests): Every test runs once in `make test`, and its size is that of the effort. Also
// `TestEffort`, `TestBadEffort` in `internal/testutil`.
func TestEfforts(t *testing.T) { report(t, checkEfforts(loadTree(t))) }

// checkEfforts wants every test to run once in `make test`, at a size that one variable gives:
// what the race run leaves out is left out by calls that tools/tests.sh finds.
func checkEfforts(files tree) []finding {
	parsed, found := files.goFiles()
	for _, g := range parsed {
		if !g.isTest() || g.dir() == "internal/tidy" {
			continue
		}
		found = append(found, g.checkTags()...)
		calls := 0
		for _, d := range g.ast.Decls {
			f, _ := d.(*ast.FuncDecl)
			isTest := f != nil && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test")
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit:
					found = append(found, g.checkEnv(n)...)
				case *ast.SelectorExpr:
					switch n.Sel.Name {
					case "Short":
						if x, ok := n.X.(*ast.Ident); ok && x.Name == "testing" {
							found = append(found, g.find(n.Pos(), "use testutil.Effort"))
						}
					case "SkipUnderRace", "SlowUnderRace":
						if calls++; !isTest {
							found = append(found, g.find(n.Pos(), "only tests call it"))
						}
					}
				}
				return true
			})
		}
		if calls != len(raceSkip.FindAll(g.src, -1)) {
			found = append(found, finding{g.path, 0, "write testutil." +
				"SkipUnderRace(t, and testutil.SlowUnderRace(t, at the beginning of a line"})
		}
	}
	return found
}

func (g *goFile) checkEnv(n *ast.BasicLit) []finding {
	m := envName.FindStringSubmatch(n.Value)
	if n.Kind != token.STRING || m == nil || testEnv[m[1]] != "" {
		return nil
	}
	return []finding{g.find(n.Pos(), "%s: use testutil.Effort, or list it in testEnv", m[1])}
}

// checkTags refuses files of tests that the race run would leave out.
func (g *goFile) checkTags() []finding {
	for line := range bytes.Lines(g.src) {
		text := strings.TrimSpace(string(line))
		if !constraint.IsGoBuild(text) {
			continue
		}
		for _, tag := range []string{"race", "!invariants"} {
			if regexp.MustCompile(`(^|[^a-z])` + tag + `\b`).MatchString(text[len("//go:build"):]) {
				return []finding{{g.path, 0, "no test file is for the tag " + tag +
					": use testutil.SkipUnderRace"}}
			}
		}
	}
	return nil
}

// TestTestEnvIsRead keeps the list of variables from outliving their readers.
func TestTestEnvIsRead(t *testing.T) {
	files := loadTree(t)
	var all []byte
	for _, name := range files.names(".go") {
		if !strings.HasPrefix(name, "internal/tidy/") {
			all = append(all, files[name]...)
		}
	}
	for name, why := range testEnv {
		if !bytes.Contains(all, []byte(`"`+name)) {
			t.Errorf("testEnv names %s (%s), which nothing reads", name, why)
		}
	}
}
