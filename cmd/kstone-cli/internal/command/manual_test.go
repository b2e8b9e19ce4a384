package command_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
)

const townsFile = `{"country":"IT","region":"Lombardy","city":"Brescia","people":196000}
{"country":"IT","region":"Lombardy","city":"Bergamo","people":120000}
{"country":"IT","region":"Tuscany","city":"Pisa","people":90000}
{"country":"US","region":"Texas","city":"Bryan","people":"many"
{"country":"US","region":"Texas","city":"Austin","people":975000}
`

const moreFile = `{"country":"IT","region":"Tuscany","city":"Pisa","people":89000}
{"country":"IT","region":"Tuscany","city":"Siena","people":53000}
{"country":"FR","region":"Brittany","city":"Rennes","people":225000}
{"country":"IT","region":"Tuscany","city":"Siena","people":54000}
`

// copyBundled copies a bundled file into the directory testdata of dir.
func copyBundled(dir, name string) error {
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "testdata", name))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "testdata"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "testdata", name), data, 0o600)
}

// TestManual runs the examples of docs/cli.md, one after the other, in one directory.
// Standard error stands after standard output if a command succeeds, and the exit code
// in brackets if it fails; "…" matches anything.
//
// Promise (manners): The command line does what its manual says. Also `TestScripts` in
// `cmd/kstone-cli/internal/command`.
func TestManual(t *testing.T) {
	testutil.SlowUnderRace(t, "starts a hundred programs")
	dir := t.TempDir()
	for name, text := range map[string]string{"towns.jsonl": townsFile, "more.jsonl": moreFile} {
		ok(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	ok(t, copyBundled(dir, "earthquakes.jsonl.gz"))
	runPage(t, dir, "cli.md")
}

// TestTutorial runs the lines of docs/tutorial.md as TestManual does those of the manual.
//
// Promise (manners): The tutorial works line by line in an empty directory.
func TestTutorial(t *testing.T) {
	testutil.SlowUnderRace(t, "starts twenty programs")
	t.Parallel()
	runPage(t, t.TempDir(), "tutorial.md")
}

// runPage runs the examples of a page of docs in a directory.
func runPage(t *testing.T, dir, page string) {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("the examples are for a POSIX shell")
	}
	manual, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", page))
	ok(t, err)
	blocks := regexp.MustCompile("(?s)```console\n(.*?)```").FindAllSubmatch(manual, -1)
	if len(blocks) < 5 {
		t.Fatalf("only %d examples found", len(blocks))
	}
	for _, block := range blocks {
		for _, example := range strings.Split("\n"+string(block[1]), "\n$ ")[1:] {
			line, want, _ := strings.Cut(example, "\n")
			want = strings.TrimSuffix(want, "\n")
			cmd := exec.Command(sh, "-c", line)
			cmd.Dir = dir
			var out, stderr strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &stderr
			if strings.Contains(want, "rejected") { // reported as they are met
				cmd.Stdout = &stderr
			}
			err := cmd.Run()
			got := out.String() + stderr.String()
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				got += fmt.Sprintf("[exit %d]\n", exit.ExitCode())
			} else if err != nil {
				t.Fatal(err)
			}
			pattern := strings.ReplaceAll(regexp.QuoteMeta(want), "…", "(?s:.*)")
			matched := regexp.MustCompile("^" + pattern +
				"$").MatchString(strings.TrimSuffix(got, "\n"))
			if !matched {
				t.Errorf("$ %s\n%s\n%s says\n%s", line, got, page, want)
			}
		}
	}
}
