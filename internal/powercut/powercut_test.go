//go:build linux

package powercut_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/torture"
)

const (
	workers = 4
	// cutsPerDisk is how many cuts a file system sees before it is made again.
	cutsPerDisk = 10
	imageBytes  = 320 << 20
)

func TestMain(m *testing.M) {
	if order := os.Getenv(torture.Env); order != "" {
		fmt.Fprintln(os.Stderr, torture.Child(context.Background(), order, os.Stdout))
		os.Exit(1)
	}
	if path := os.Getenv(plainEnv); path != "" {
		fmt.Fprintln(os.Stderr, plainWriter(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Goal: what is acknowledged at Sync survives a real power cut, and what is found is a
// state that the workers went through. Method: a child writes to a file system on an image;
// the file system is shut down under it without writing its log; the child must end with
// an error of its own or be killed, never by a fault of the mapped log; the file system is
// mounted again and the database checked.
//
// Promise (durability): What was acknowledged survives power cuts of real ext4 and XFS; a writer
// that does not sync is caught. Also `TestPowerCutCatchesAWriterThatDoesNotSync` in
// `internal/powercut` (`make powercut`).
func TestPowerCutOnRealFileSystems(t *testing.T) {
	for _, fsys := range fileSystems {
		t.Run(fsys.name, func(t *testing.T) {
			n := cycles(t, fsys.mkfs[0])
			acked, steps, lost := cuts(t, fsys, n, false)
			if lost != nil {
				t.Fatal(lost)
			}
			t.Logf("%d power cuts on %s, %d steps acknowledged at Sync, %d steps found, none"+
				" lost", n, fsys.name, acked, steps)
		})
	}
}

// The control: a writer that does not sync but says so must be caught, or the test above
// proves nothing.
func TestPowerCutCatchesAWriterThatDoesNotSync(t *testing.T) {
	for _, fsys := range fileSystems {
		t.Run(fsys.name, func(t *testing.T) {
			_, _, lost := cuts(t, fsys, cycles(t, fsys.mkfs[0]), true)
			if lost == nil {
				t.Fatal("no power cut has lost anything of a writer that does not sync")
			}
			t.Logf("caught: %v", lost)
		})
	}
}

// cuts cuts the power n times, or until something is lost.
func cuts(t *testing.T, fsys fileSystem, n int, noSync bool) (acked, steps int, lost error) {
	seed := testutil.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	var d *disk
	var tester *torture.Tester
	for i := range n {
		if i%cutsPerDisk == 0 {
			if d != nil {
				d.unmount(t)
				d.format(t, fsys)
			} else {
				d = newImage(t, fsys, imageBytes)
			}
			tester = torture.NewTester(seed+uint64(i), workers)
		}
		dir := filepath.Join(d.dir, "t")
		order := tester.Order(dir)
		order.NoSync = noSync
		synced := cutOnce(t, d, order, rng)
		for w := range synced {
			acked += synced[w] - order.From[w]
		}
		d.unmount(t)
		d.mount(t)
		_, err := os.Stat(filepath.Join(dir, "db", "CURRENT"))
		if err != nil && slices.Max(synced) == 0 {
			continue // cut before there was a database
		}
		found, err := tester.Check(t.Context(), dir, synced)
		if err != nil {
			return acked, steps, fmt.Errorf("cut %d: %w", i+1, err)
		}
		steps += found
		clearCopies(t, dir)
	}
	d.unmount(t)
	return acked, steps, nil
}

// cutOnce runs a child until the power is cut and returns what it had synced by then.
func cutOnce(t *testing.T, d *disk, order torture.Order, rng *rand.Rand) []int {
	t.Helper()
	s, err := torture.Start([]string{os.Args[0]}, order)
	testutil.OK(t, err)
	wait(s, time.Duration(rng.IntN(350))*time.Millisecond)
	if rng.IntN(2) == 0 {
		pushOut(d.dir, rng)
	}
	// Before the cut: a sync under way meanwhile may report a success that is not durable.
	_, synced := s.Acked()
	if err := d.cut(); err != nil {
		said, end := s.Stop()
		t.Fatalf("%v (the child: %v, %s)", err, end, said)
	}
	wait(s, time.Duration(rng.IntN(200))*time.Millisecond)
	said, end := s.Stop()
	acked, _ := s.Acked()
	checkEnd(t, said, end, !slices.Equal(acked, order.From))
	return synced
}

// wait waits for the child to end, but no longer than d.
func wait(s *torture.Session, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.Ended():
	}
}

// checkEnd checks that a child whose disk is gone has ended with an error that it returned,
// or was still alive to be killed. One that has written says what it is; while opening,
// the directories of the file system are gone as well, and the errors are of many kinds.
func checkEnd(t *testing.T, said string, end error, written bool) {
	t.Helper()
	for _, word := range []string{"SIGBUS", "SIGSEGV", "panic", "fatal error", "goroutine "} {
		if strings.Contains(said, word) {
			t.Fatalf("the child crashed: %v\n%s", end, said)
		}
	}
	if said == "" || !written { // killed
		return
	}
	for _, word := range []string{"input/output error", "read-only", "shut down"} {
		if strings.Contains(said, word) {
			return
		}
	}
	t.Fatalf("the child ended with another error: %v\n%s", end, said)
}

// pushOut writes some ranges of some files to the disk, as memory pressure might, so that
// what is lost is not all that was not synced.
func pushOut(dir string, rng *rand.Rand) {
	names, _ := filepath.Glob(filepath.Join(dir, "t", "db", "*"))
	for _, name := range names {
		if rng.IntN(2) == 0 {
			continue
		}
		f, err := os.Open(name)
		if err != nil {
			continue // the child has removed it
		}
		if info, err := f.Stat(); err == nil && info.Size() > 0 {
			const how = unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
			from := rng.Int64N(info.Size())
			// A hint: what it does not do is not missed.
			_ = unix.SyncFileRange(int(f.Fd()), from, rng.Int64N(256<<10), how)
		}
		f.Close()
	}
}

// clearCopies removes the checkpoints that the cut has left.
func clearCopies(t *testing.T, dir string) {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(dir, "copy-*"))
	for _, name := range names {
		testutil.OK(t, os.RemoveAll(name))
	}
}
