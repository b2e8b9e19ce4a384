//go:build unix

package main_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/command"
	"github.com/kstonedb/kstone/cmd/kstone-cli/kstone-cli-migrate/internal/readers"
	"github.com/kstonedb/kstone/internal/testutil"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"kstone-cli": func() {
			readers.Register()
			os.Exit(command.Main(os.Args[1:]))
		},
	})
}

// sources make a source of each kind, by the engine itself; step says which of several.
var sources = map[string]func(path, step string) error{
	"bbolt": makeBbolt, "badger": makeBadger, "leveldb": makeLevelDB, "pebble": makePebble,
	"pebble1": makePebble1, "sqlite": makeSQLite,
}

// held open a source for writing.
var held = map[string]func(path string) (release func() error, err error){
	"bbolt": holdBbolt, "badger": holdBadger, "leveldb": holdLevelDB, "pebble": holdPebble,
	"sqlite": holdSQLite,
}

// Each engine's files become a database, by a rule that is shown; what cannot be carried over is
// listed; a second run brings over what has changed; damaged and foreign files are refused, and no
// source is changed.
//
// Promise (manners): migrate copies what another engine stores by a rule that it shows first,
// lists what it leaves out, compares every pair or row in the end, and writes nothing to a source.
func TestScripts(t *testing.T) {
	var contents sync.Map // of sources, by name; scripts run beside each other
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"make": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(sources[args[0]](ts.MkAbs(args[1]), args[2]))
			},
			"cut": func(ts *testscript.TestScript, _ bool, args []string) {
				found, err := filepath.Glob(ts.MkAbs(args[0]))
				ts.Check(err)
				name := found[0]
				info, err := os.Stat(name)
				ts.Check(err)
				ts.Check(os.Truncate(name, info.Size()/2))
			},
			"flip": func(ts *testscript.TestScript, _ bool, args []string) { // a byte in the middle
				found, err := filepath.Glob(ts.MkAbs(args[0]))
				ts.Check(err)
				b, err := os.ReadFile(found[0])
				ts.Check(err)
				b[len(b)/2] ^= 1
				ts.Check(os.WriteFile(found[0], b, 0o600))
			},
			"hold": func(ts *testscript.TestScript, _ bool, args []string) {
				release, err := held[args[0]](ts.MkAbs(args[1]))
				ts.Check(err)
				ts.Defer(func() { _ = release() })
			},
			// The first time it notes what a source contains, then it compares.
			"unchanged": func(ts *testscript.TestScript, _ bool, args []string) {
				name := ts.MkAbs(args[0])
				now, err := content(name)
				ts.Check(err)
				was, known := contents.Swap(name, now)
				if known && !bytes.Equal(was.([]byte), now) {
					ts.Fatalf("%s has changed:\n%s\n%s", args[0], was, now)
				}
			},
		},
	})
}

// content lists the files of a source with their checksums.
func content(name string) (list []byte, err error) {
	err = filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		list = fmt.Appendf(list, "%s %d %x\n", path, len(b), sha256.Sum256(b))
		return err
	})
	return list, err
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
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

// A migration is killed at random moments, and finished by the same command, which writes only
// what is missing.
//
// Promise (manners): A migration that was killed is finished by the same command.
func TestKilledMigration(t *testing.T) {
	self, err := exec.LookPath("kstone-cli") // installed in PATH by testscript
	testutil.OK(t, err)
	for kind, make := range sources {
		t.Run(kind, func(t *testing.T) {
			kind := strings.TrimSuffix(kind, "1")
			dir := t.TempDir()
			file, db := filepath.Join(dir, "source"), filepath.Join(dir, "a.db")
			testutil.OK(t, make(file, "large"))
			rng := testutil.Rand(t)
			for range 6 {
				ctx, cancel := context.WithTimeout(context.Background(),
					time.Duration(rng.IntN(80))*time.Millisecond)
				_ = exec.CommandContext(ctx, self, "migrate", kind, file, db).Run()
				cancel()
			}
			out, err := exec.Command(self, "migrate", kind, file, db).CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte("20,000 ")) {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
			if out, err := exec.Command(self, "verify", db).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
}
