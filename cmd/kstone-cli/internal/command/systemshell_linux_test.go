package command_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
)

// TestSystemShells presses Tab in the shells that are installed.
//
// Promise (manners): Tab completes commands, keys, tables and values of flags in bash, zsh, fish.
func TestSystemShells(t *testing.T) {
	testutil.SlowUnderRace(t, "starts programs")
	for _, c := range []struct {
		shell string
		args  []string
		setUp string // a line that makes the shell read the script, which is named script
	}{
		{"bash", []string{"--norc", "--noprofile"}, "source ./script"},
		{"zsh", []string{"-f"}, "mv script _kstone-cli; fpath=($PWD $fpath); " +
			"autoload -Uz compinit; compinit -u"},
		{"fish", []string{"--no-config"}, "source ./script"},
	} {
		t.Run(c.shell, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(c.shell); err != nil {
				t.Skipf("no %s on this machine", c.shell)
			}
			dir := t.TempDir()
			script, err := exec.Command("kstone-cli", "completion", c.shell).Output()
			ok(t, err)
			ok(t, os.WriteFile(filepath.Join(dir, "script"), script, 0o600))
			for _, args := range [][]string{{"put", "alpha", "the value of alpha"},
				{"sql", "CREATE TABLE towns (name TEXT PRIMARY KEY)"},
				{"sql", "INSERT INTO towns VALUES ('Pisa')"}} {
				args = append([]string{args[0], filepath.Join(dir, "my.db")}, args[1:]...)
				if out, err := exec.Command("kstone-cli", args...).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			x := startProgram(t, c.shell, 100, []string{"HOME=" + dir}, c.args...)
			x.send("cd " + dir + enter + c.setUp + enter)
			x.send("kstone-cli ge" + tab + "my.db al" + tab + enter)
			x.expect("the value of alpha")
			x.send("kstone-cli scan my.db --table to" + tab + enter)
			x.expect("Pisa")
			x.send("kstone-cli put my.db beta value-of-beta --durability pr" + tab + enter)
			x.send("kstone-cli get my.db be" + tab + "| tr v V" + enter)
			x.expect("Value-of-beta")
			x.send("exit" + enter)
			x.rest()
		})
	}
}
