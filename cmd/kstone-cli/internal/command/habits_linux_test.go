package command_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/kstonedb/kstone/internal/testutil"
)

// towns makes a database with a table of some rows and as many items, and returns its directory.
func towns(t *testing.T, rows int) (dir, db string) {
	t.Helper()
	dir = t.TempDir()
	var text strings.Builder
	for i := range rows {
		fmt.Fprintf(&text, `{"id":%d,"name":"town %d","note":"%s"}`+"\n", i, i,
			strings.Repeat("wide ", 12))
	}
	file := filepath.Join(dir, "towns.jsonl")
	ok(t, os.WriteFile(file, []byte(text.String()), 0o600))
	db = filepath.Join(dir, "my.db")
	for _, args := range [][]string{{"import", db, file, "--pk", "id:int"},
		{"import", db, file, "--table", "towns"}} {
		if out, err := exec.Command("kstone-cli", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return dir, db
}

// TestPreferencesOnTerminal types into a shell with a settings file, a pager and an editor.
//
// Promise (manners): The settings file of the shell sets preferences, .pager shows results in the
// user's pager, and Ctrl-X Ctrl-E opens the user's editor.
func TestPreferencesOnTerminal(t *testing.T) {
	t.Parallel()
	dir, db := towns(t, 3)
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		ok(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	rc := write("shellrc", ".mode box\n.mode nonsense\n", 0o600)
	editor := write("editor", "#!/bin/sh\nprintf 'count\\n' > \"$1\"\n", 0o700)
	x := startTerminal(t, []string{"KSTONE_SHELLRC=" + rc, "EDITOR=" + editor, "VISUAL=",
		"KSTONE_HISTORY=", "HOME=" + dir, "PAGER=sed s/^/paged:/"}, "shell", db)
	x.expect("shellrc:2")
	x.prompt()
	x.send("select id, name from towns limit 1;" + enter)
	x.expect("+----")
	x.expect("| town 0")
	x.prompt()
	x.send(".pager on" + enter)
	x.prompt()
	x.send("select name from towns;" + enter)
	x.expect("paged:| town 0")
	x.expect("paged:3 rows")
	x.prompt()
	x.send(".pager off" + enter)
	x.prompt()
	x.send("\x18\x05") // Ctrl-X Ctrl-E
	x.expect("count")
	x.send(enter)
	x.expect("3")
	x.prompt()
	x.send(ctrlD)
	if out, code := x.rest(); code != 0 {
		t.Errorf("exit code %d after\n%s", code, out)
	}
}

// colours are sequences that choose a colour.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*[34][0-9][0-9;]*m")

// TestWidthAndColour looks at what fits on terminals of several widths.
//
// Promise (manners): Help and tables are no wider than the terminal, and NO_COLOR turns colours
// off.
func TestWidthAndColour(t *testing.T) {
	testutil.SlowUnderRace(t, "starts programs")
	t.Parallel()
	_, db := towns(t, 60)
	for _, cols := range []uint16{80, 140} {
		for _, args := range [][]string{{"help", "scan"}, {"help"}, {"help", "index", "create"},
			{"scan", db}, {"scan", db, "--table", "towns"}, {"stats", db, "--top", "1"}} {
			for _, plain := range []bool{false, true} {
				env := []string{"NO_COLOR="}
				if plain {
					env[0] = "NO_COLOR=1"
				}
				out, code := startSized(t, cols, env, args...).rest()
				if code != 0 {
					t.Fatalf("%q: exit code %d\n%s", args, code, out)
				}
				if got := colours.MatchString(out); plain && got ||
					!plain && args[0] == "stats" && !got {
					t.Errorf("%q with %s: colours %v", args, env[0], got)
				}
				for line := range strings.SplitSeq(escapes.ReplaceAllString(out, ""), "\n") {
					line = line[strings.LastIndexByte(strings.TrimRight(line, "\r"), '\r')+1:]
					if n := utf8.RuneCountInString(strings.TrimRight(line, "\r")); n > int(cols) {
						t.Errorf("%q on %d columns: %d: %s", args, cols, n, line)
					}
				}
			}
		}
	}
}

// TestInterrupted sends Ctrl-C while commands write files.
//
// Promise (manners): Ctrl-C ends a command with exit code 130, and in a shell only the command; no
// file has its final name before it is complete.
func TestInterrupted(t *testing.T) {
	testutil.SlowUnderRace(t, "starts programs")
	t.Parallel()
	dir, db := towns(t, 300)
	const endless = "select count(*) from towns a, towns b, towns c, towns d " +
		"where a.name > b.name and b.name > c.name and c.name > d.name"
	x := startTerminal(t, nil, "sql", db, endless)
	x.expect("running") // the bar
	x.send(ctrlC)
	if out, code := x.rest(); code != 130 || !strings.Contains(out, "interrupted") {
		t.Errorf("exit code %d after\n%s", code, out)
	}

	file := filepath.Join(dir, "result")
	x = startTerminal(t, []string{"KSTONE_HISTORY=", "HOME=" + dir}, "shell", db)
	x.prompt()
	for _, once := range []string{".once " + file, ".once " + file} {
		x.send(once + enter)
		x.prompt()
		x.send(endless + ";" + enter)
		x.expect("running")
		x.send(ctrlC)
		x.expect("interrupted")
		x.prompt()
	}
	x.send(".once " + filepath.Join(dir, "whole") + enter)
	x.prompt()
	x.send("select count(*) as n from towns;" + enter)
	x.prompt()
	x.send(ctrlD)
	x.rest()
	names, err := filepath.Glob(filepath.Join(dir, "*result*"))
	hidden, _ := filepath.Glob(filepath.Join(dir, ".*result*"))
	if err != nil || len(names)+len(hidden) > 0 {
		t.Errorf("%q and %q are left, %v", names, hidden, err)
	}
	if whole, err := os.ReadFile(filepath.Join(dir, "whole")); err != nil ||
		string(whole) != "{\"n\":300}\n" {
		t.Errorf("%q, %v", whole, err)
	}
}

// TestInterruptedImport sends Ctrl-C to an import of more than Close leaves in memory.
//
// Promise (manners): An interrupted import ends at once, without a flush, and keeps what it wrote.
func TestInterruptedImport(t *testing.T) {
	testutil.SlowUnderRace(t, "starts programs")
	t.Parallel()
	dir := t.TempDir()
	pipe, db := filepath.Join(dir, "pipe"), filepath.Join(dir, "my.db")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("no named pipes: %v", err)
	}
	x := startTerminal(t, nil, "import", db, pipe, "--pk", "id:int", "--format", "jsonl")
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	ok(t, err)
	defer w.Close() // after Ctrl-C: the import waits for more
	pad := strings.Repeat("x", 200)
	for i := range 40_000 {
		if _, err := fmt.Fprintf(w, `{"id":%d,"pad":"%s"}`+"\n", i, pad); err != nil {
			t.Fatal(err)
		}
	}
	x.expect("importing")
	x.send(ctrlC)
	out, code := x.rest()
	files, err := filepath.Glob(filepath.Join(db, "*.sst"))
	if code != 130 || !strings.Contains(out, "what was written stays") || len(files) > 0 ||
		err != nil {
		t.Errorf("exit code %d, %d data files, %v after\n%s", code, len(files), err, out)
	}
	n, err := exec.Command("kstone-cli", "count", db).Output()
	if count, _ := strconv.Atoi(strings.TrimSpace(string(n))); err != nil || count < 20_000 {
		t.Errorf("%s items, %v", n, err)
	}
}
