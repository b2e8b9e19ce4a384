package engine_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// Environment of the child process that TestKilledWriterLosesNothing kills.
const (
	crashDirEnv   = "KSTONE_CRASH_DIR"
	crashLevelEnv = "KSTONE_CRASH_LEVEL"
	crashFromEnv  = "KSTONE_CRASH_FROM"
)

// Each commit n of the child writes a batch of three keys in different stripes, all
// with the value n, so that the parent can tell a torn batch, a hole and a loss.
func crashKeys(n int) (ks [3]engine.Key) {
	for i := range ks {
		ks[i] = engine.Key{PK: fmt.Appendf(nil, "%c#%d", 'a'+i, n%5000), SK: []byte("v")}
	}
	return ks
}

func crashWriter() error {
	level, _ := strconv.Atoi(os.Getenv(crashLevelEnv))
	from, _ := strconv.Atoi(os.Getenv(crashFromEnv))
	db, err := engine.Open(os.Getenv(crashDirEnv), &engine.Options{
		Durability: engine.Durability(level), MemtableBytes: 1 << 20, LogBytes: 8 << 20,
		CacheBytes: 1 << 20,
	})
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(os.Stdout, 16) // one write per line: the pipe is the witness
	b := engine.NewBatch()
	value := make([]byte, 200)
	for n := from; ; n++ {
		b.Reset()
		binary.BigEndian.PutUint64(value, uint64(n))
		for _, k := range crashKeys(n) {
			if err := b.Put(k, value); err != nil {
				return err
			}
		}
		if err := db.Apply(ctx, b); err != nil {
			return err
		}
		fmt.Fprintln(out, n)
		if err := out.Flush(); err != nil {
			return err
		}
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(crashDirEnv) != "" {
		fmt.Fprintln(os.Stderr, crashWriter())
		os.Exit(1)
	}
	if os.Getenv(smallDirEnv) != "" {
		if err := smallWriter(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Goal: kill -9 of the process loses no acknowledged commit, tears no batch, and leaves
// a database that opens and verifies; both durability levels promise that. Method: a
// child writes and reports each acknowledged commit; it is killed at a random moment,
// again and again on the same directory.
//
// Promise (durability): Acknowledged at either level: survives a kill of the process. Also over
// the whole API, with checkpoints, also when killed while opening: `TestTorture` in
// `internal/torture`, whose own eyes `TestLocateFindsWhatIsWrong` tests; through the command
// line `TestKilledImport`, `TestKilledDedup`.
// Promise (durability): A batch is all or nothing after a kill, and there is never a hole.
func TestKilledWriterLosesNothing(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	t.Parallel()
	runs := testutil.Effort(6, 20)
	rnd := testutil.Rand(t)
	for _, level := range []engine.Durability{engine.Sync, engine.Process} {
		t.Run(level.String(), func(t *testing.T) {
			dir, next := t.TempDir(), 0
			for range runs {
				lives := time.Duration(50+rnd.IntN(400)) * time.Millisecond
				acked := killedRun(t, dir, level, next, lives)
				next = checkCrashed(t, dir, acked) + 1
			}
			t.Logf("%d kills, %d commits", runs, next)
		})
	}
}

// killedRun runs the child, kills it after a time and returns the last acknowledged commit.
func killedRun(t *testing.T, dir string, level engine.Durability, from int,
	lives time.Duration) int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashDirEnv+"="+dir, crashLevelEnv+"="+strconv.Itoa(int(level)),
		crashFromEnv+"="+strconv.Itoa(from))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(lives, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	last := from - 1
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		n, err := strconv.Atoi(lines.Text())
		if err != nil {
			break // torn by the kill
		}
		last = n
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != -1 {
		t.Fatalf("child ended by itself: %v\n%s", err, stderr.String())
	}
	return last
}

// checkCrashed opens the database, checks it against what was acknowledged, and returns
// the newest commit in it.
func checkCrashed(t *testing.T, dir string, acked int) int {
	t.Helper()
	db, err := engine.Open(dir, &engine.Options{MemtableBytes: 1 << 20, LogBytes: 8 << 20})
	if err != nil {
		t.Fatalf("open after kill: %v", err)
	}
	defer db.Close()
	if _, err := db.Verify(ctx, nil); err != nil {
		t.Fatalf("verify after kill: %v", err)
	}
	newest := -1
	seen := map[int]int{} // slot → commit
	for it, err := range db.Scan(ctx, engine.Scan{Unordered: true}) {
		if err != nil {
			t.Fatal(err)
		}
		n := int(binary.BigEndian.Uint64(it.Value))
		newest = max(newest, n)
		if was, ok := seen[n%5000]; ok && was != n {
			t.Fatalf("slot %d holds parts of commits %d and %d: a torn batch", n%5000, was, n)
		}
		seen[n%5000] = n
	}
	if newest < acked {
		t.Fatalf("newest commit is %d, but %d was acknowledged", newest, acked)
	}
	for n := max(0, newest-4999); n <= newest; n++ {
		if seen[n%5000] != n {
			t.Fatalf("commit %d is missing below %d: a hole", n, newest)
		}
		for _, k := range crashKeys(n) {
			if ok, err := db.Has(k); err != nil || !ok {
				t.Fatalf("commit %d lacks %v: %v", n, k, err)
			}
		}
	}
	return newest
}
