package command_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/command"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// quickExit takes away the second that a program under the race detector sleeps at its
// end; the scripts start hundreds of programs.
const quickExit = "atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" "+quickExit))
	testscript.Main(m, map[string]func(){
		"kstone-cli": func() { os.Exit(command.Main(os.Args[1:])) },
	})
}

// TestScripts runs every command the way a user does; see testdata/script. Beside the
// commands of testscript the scripts know
//
//	exits CODE COMMAND…  COMMAND ends with this exit code
//	hold DIR             another process has the database open, until the script ends
//	flip FILE OFFSET     a bit of the file is flipped; negative offsets count from the end
//	cities FILE          FILE becomes the bundled cities
//	full COMMAND         COMMAND of kstone-cli, one word, fails on a full disk
//
// Promise (reads and writes): `kstone-cli dedup` distinguishes new, stored and repeated records
// and writes nothing unless asked to. Also scripts `dedup` and `cities`.
// Promise (reads and writes): `kstone-cli segment` answers as its keys say; a build that fails
// or is stopped leaves no file and replaces none; damage has file and offset. Also script
// `segment`; `TestStoppedSegmentBuild`.
// Promise (sql): Every command about tables, with each exit code. Also scripts `sql`,
// `sqltables`, `sqlimport`; `TestManual`.
// Promise (manners): An import makes a missing table of the file, rejects rows that do not fit
// with place and remedy, and reports records that one key makes one. Also scripts `importnew`,
// `import`.
// Promise (manners): An export of DynamoDB becomes items or rows, and the same lines again; data
// files are compared with their manifest, and no key changes its type. Also script `dynamodb`.
// Promise (manners): The settings of a database outlive the commands that choose them. Also
// script `settings`.
func TestScripts(t *testing.T) {
	testutil.SlowUnderRace(t, "starts hundreds of programs")
	all, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(all) <= len(slowScripts)+len(concurrentScripts) {
		t.Fatalf("scripts %q, %v", all, err)
	}
	runScripts(t, slices.DeleteFunc(all, func(name string) bool {
		return slices.Contains(slowScripts, name) || slices.Contains(concurrentScripts, name)
	}))
}

// concurrentScripts are about commands with goroutines of their own.
var concurrentScripts = []string{"testdata/script/dedup.txtar", "testdata/script/import.txtar",
	"testdata/script/shell.txtar"}

// TestConcurrentScripts is the part of TestScripts for the race detector.
func TestConcurrentScripts(t *testing.T) { runScripts(t, concurrentScripts) }

// slowScripts take minutes under the race detector.
var slowScripts = []string{"testdata/script/cities.txtar", "testdata/script/torture.txtar"}

// TestSlowScripts is the rest of TestScripts.
func TestSlowScripts(t *testing.T) {
	testutil.SkipUnderRace(t, "the scripts take minutes")
	runScripts(t, slowScripts)
}

func runScripts(t *testing.T, files []string) {
	testscript.Run(t, testscript.Params{
		Files: files,
		Setup: func(env *testscript.Env) error {
			env.Setenv("KSTONE_HISTORY", filepath.Join(env.WorkDir, "history"))
			env.Setenv("KSTONE_SHELLRC", filepath.Join(env.WorkDir, "shellrc"))
			env.Setenv("TMPDIR", env.WorkDir)
			env.Setenv("GORACE", os.Getenv("GORACE"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "hold": hold, "flip": flip, "cities": cities, "full": full,
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func full(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec("sh", "-c", "kstone-cli "+args[0]+" > /dev/full")
	if err == nil {
		ts.Fatalf("it succeeds on a full disk")
	}
}

func hold(ts *testscript.TestScript, _ bool, args []string) {
	db, err := engine.Open(ts.MkAbs(args[0]), nil)
	ts.Check(err)
	ts.Defer(func() { db.Close() })
}

func flip(ts *testscript.TestScript, _ bool, args []string) {
	names, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(names) == 0 {
		ts.Fatalf("no file %s", args[0])
	}
	b, err := os.ReadFile(names[0])
	ts.Check(err)
	at, err := strconv.Atoi(args[1])
	ts.Check(err)
	if at < 0 {
		at += len(b)
	}
	b[at] ^= 1
	ts.Check(os.WriteFile(names[0], b, 0o600))
}

func cities(ts *testscript.TestScript, _ bool, args []string) {
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "testdata", "cities.jsonl.gz"))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o600))
}
