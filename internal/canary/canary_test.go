package canary_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/internal/testutil"
)

// canaryEnv makes the bugs be planted, from the one with that number on (1 is the first);
// without it only that they can be is checked.
const canaryEnv = "KSTONE_CANARY"

// bug is a planted bug with the test that must fail because of it. Bugs are chosen to be small and
// easily made: a line forgotten, a case not thought of.
type bug struct {
	promise string // that is broken
	edits   []edit
	pkg     string
	test    string // name of the test
}

// edit replaces the only occurrence of old in a file.
type edit struct{ file, old, new string }

// parseBugs reads the bugs of a file of testdata. Of a bug it has
//
//	# the promise that is broken
//	test PACKAGE TEST
//	in FILE
//	-whole lines that are replaced
//	<or what comes after them, part of a line
//	+the lines in their place
//	>and part of a line
//
// "in" begins an edit: there may be several.
func parseBugs(t *testing.T, text string) (list []bug) {
	t.Helper()
	for line := range strings.Lines(text) {
		whole := strings.TrimSuffix(line, "\n")
		if whole == "" {
			continue
		}
		if rest, begins := strings.CutPrefix(whole, "# "); begins {
			list = append(list, bug{promise: rest})
			continue
		}
		b := &list[len(list)-1]
		word, rest, _ := strings.Cut(whole, " ")
		switch word {
		case "test":
			b.pkg, b.test, _ = strings.Cut(rest, " ")
			continue
		case "in":
			b.edits = append(b.edits, edit{file: rest})
			continue
		}
		e := &b.edits[len(b.edits)-1]
		switch line[0] {
		case '-':
			e.old += line[1:]
		case '<':
			e.old += whole[1:]
		case '+':
			e.new += line[1:]
		case '>':
			e.new += whole[1:]
		default:
			t.Fatalf("a line that is no part of a bug: %q", whole)
		}
	}
	return list
}

// allBugs returns the bugs of all files of testdata.
func allBugs(t *testing.T) (all []bug) {
	t.Helper()
	names, err := filepath.Glob("testdata/*.txt")
	testutil.OK(t, err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		testutil.OK(t, err)
		all = append(all, parseBugs(t, string(text))...)
	}
	return all
}

// root is the module's directory.
const root = "../.."

// Every bug finds its place and its test: a patch that no longer applies proves nothing any more.
func TestBugsApply(t *testing.T) {
	bugs := allBugs(t)
	if len(bugs) < 160 {
		t.Errorf("only %d bugs", len(bugs))
	}
	for _, b := range bugs {
		if _, err := b.plant(root); err != nil {
			t.Errorf("%s: %v", b.promise, err)
		}
		if !hasTest(t, b.pkg, b.test) {
			t.Errorf("%s: %s has no test %s", b.promise, b.pkg, b.test)
		}
	}
}

// hasTest reports whether a package has a test whose name matches a pattern.
func hasTest(t *testing.T, pkg, pattern string) bool {
	t.Helper()
	name := regexp.MustCompile(`^(` + pattern + `)$`)
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	testutil.OK(t, err)
	return slices.ContainsFunc(files, func(file string) bool {
		content, err := os.ReadFile(file)
		for line := range strings.Lines(string(content)) {
			rest, begins := strings.CutPrefix(line, "func ")
			if found, _, _ := strings.Cut(rest, "("); begins && name.MatchString(found) {
				return true
			}
		}
		return err != nil
	})
}

// Goal: no planted bug survives its test. Method: the source is copied; the tests pass
// there without a bug; then, one bug after the other, the test named with it has to fail,
// and not because the source no longer compiles. KSTONE_CANARY=1 runs it.
//
// Promise (tests): A promise broken on purpose is noticed: planted bugs, among them a sync left
// out, a directory sync left out, a stripe forgotten, a tombstone dropped early, a read set not
// checked, a block cached in the wrong place. Also (`make canary`), `TestBugsApply`.
func TestPlantedBugsAreCaught(t *testing.T) {
	if os.Getenv(canaryEnv) == "" {
		t.Skipf("%s is not set: make canary does", canaryEnv)
	}
	bugs := allBugs(t)
	from, err := strconv.Atoi(os.Getenv(canaryEnv))
	if err != nil || from < 1 || from > len(bugs) {
		t.Fatalf("%s is not the number of a bug", canaryEnv)
	}
	bugs = bugs[from-1:]
	dir := t.TempDir()
	copyTree(t, dir)
	tests := map[string][]string{}
	for _, b := range bugs {
		if !slices.Contains(tests[b.pkg], b.test) {
			tests[b.pkg] = append(tests[b.pkg], b.test)
		}
	}
	for pkg, names := range tests {
		if out, failed := runTest(t, dir, pkg, strings.Join(names, "|"), 1, 5); failed {
			t.Fatalf("%s fails without a planted bug:\n%s", pkg, out)
		}
	}
	for _, b := range bugs {
		files, err := b.plant(dir)
		if err != nil {
			t.Errorf("%s: %v", b.promise, err)
			continue
		}
		saved := map[string][]byte{}
		for name, content := range files {
			if saved[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, name), content)
		}
		start := time.Now()
		// Several runs: their random numbers are the same, the turns of goroutines and the
		// moments of kills are not.
		out, failed := runTest(t, dir, b.pkg, b.test, 3, 5)
		if !failed {
			out, failed = runTest(t, dir, b.pkg, b.test, 1, 20)
		}
		switch {
		case strings.Contains(out, "[build failed]"):
			t.Errorf("%s: the bug does not compile:\n%s", b.promise, out)
		case !failed:
			t.Errorf("SURVIVED: %s (%s in %s)", b.promise, b.test, b.pkg)
		default:
			t.Logf("caught in %v: %s (%s in %s)", time.Since(start).Round(time.Second), b.promise,
				b.test, b.pkg)
		}
		for name, content := range saved {
			write(t, filepath.Join(dir, name), content)
		}
	}
}

// plant returns the files that the bug changes with their new content.
func (b *bug) plant(dir string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, e := range b.edits {
		content, there := files[e.file]
		if !there {
			var err error
			if content, err = os.ReadFile(filepath.Join(dir, e.file)); err != nil {
				return nil, err
			}
		}
		if n := strings.Count(string(content), e.old); n != 1 {
			return nil, fmt.Errorf("%s has %d times what is to be replaced: %q", e.file, n, e.old)
		}
		files[e.file] = []byte(strings.Replace(string(content), e.old, e.new, 1))
	}
	return files, nil
}

// runTest runs tests of a package with an effort up to count times, until one fails.
func runTest(t *testing.T, dir, pkg, names string, count, effort int) (out string, failed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-failfast", "-timeout", "5m",
		fmt.Sprintf("-count=%d", count), "-run", "^("+names+")$", pkg)
	cmd.Dir, cmd.Args[len(cmd.Args)-1] = module(dir, pkg)
	// Some bugs show at the sizes of `make test` only now and then.
	cmd.Env = append(os.Environ(), fmt.Sprint("KSTONE_EFFORT=", effort))
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if strings.Contains(string(b), "no tests to run") {
		t.Fatalf("%s has no test %s", pkg, names)
	}
	return string(b), err != nil
}

// module returns the directory of the module that has a package, and what the package is called
// there.
func module(root, pkg string) (dir, local string) {
	dir = filepath.Join(root, pkg)
	for local = "."; dir != root; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		local = "./" + filepath.Join(filepath.Base(dir), local)
	}
	return dir, local
}

// copyTree copies the tree without benchmarks and documents.
func copyTree(t *testing.T, to string) {
	t.Helper()
	skip := []string{".git", "bin", "build", "cmd/kstone-bench", "docs"}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains(skip, name) {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), content, 0o644)
		}
		return err
	})
	testutil.OK(t, err)
}

func write(t *testing.T, name string, content []byte) {
	t.Helper()
	testutil.OK(t, os.WriteFile(name, content, 0o644))
}
