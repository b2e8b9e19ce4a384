package torture_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/torture"
)

func TestMain(m *testing.M) {
	if order := os.Getenv(torture.Env); order != "" {
		fmt.Fprintln(os.Stderr, torture.Child(context.Background(), order, os.Stdout))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Goal: whatever a process was doing when it is killed, nothing that it acknowledged is
// lost, no commit is there in part, nothing deleted is back. Method: see the package.
//
// Promise (durability): Acknowledged at either level: survives a kill of the process, over the
// whole API, with checkpoints, also when killed while opening. Also `TestLocateFindsWhatIsWrong`,
// which checks the check; through the command line `TestKilledImport`, `TestKilledDedup`.
// Promise (durability): A batch is all or nothing after a kill, and there is never a hole.
// Promise (history): After kills at any moment a consumer that goes on where it was has every
// commit once, and makes what the database has.
func TestTorture(t *testing.T) {
	c := torture.Config{
		Dir: filepath.Join(t.TempDir(), "t"), Workers: 4,
		For:  time.Duration(testutil.Effort(4, 60)) * time.Second,
		Seed: testutil.Seed(t), Command: []string{os.Args[0]},
	}
	rep, err := torture.Run(t.Context(), c)
	testutil.OK(t, err)
	t.Logf("%d cycles (%d killed while opening), %d steps, %d not acknowledged, %d checkpoints, "+
		"%d changes", rep.Cycles, rep.Early, rep.Steps, rep.Lucky, rep.Copies, rep.Changes)
	if rep.Cycles == 0 || rep.Steps == 0 || rep.Changes == 0 {
		t.Error("nothing happened")
	}
}

// An interrupt that reaches the child, too, is no broken promise, whenever it comes.
func TestInterruptIsNoVerdict(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("processes cannot be interrupted here")
	}
	dir := filepath.Join(t.TempDir(), "t")
	for i := range 12 {
		ctx, cancel := context.WithCancel(t.Context())
		c := torture.Config{
			Dir: dir, For: time.Minute, Workers: 2, Seed: uint64(i) + 1,
			Command: []string{os.Args[0]},
			Started: func(p *os.Process) {
				time.AfterFunc(time.Duration(i)*5*time.Millisecond, func() {
					_ = p.Signal(os.Interrupt)
					cancel()
				})
			},
		}
		if _, err := torture.Run(ctx, c); err != nil {
			t.Fatalf("interrupted after %d ms: %v", 5*i, err)
		}
		cancel()
	}
}
