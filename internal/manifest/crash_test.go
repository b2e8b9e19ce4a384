package manifest_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// newDisk returns what of m is durable, and tears what is written in small pieces.
func newDisk(m *vfs.MemFS) *vfstest.CrashFS {
	disk := vfstest.CrashOf(m)
	disk.SectorBytes = 16
	return disk
}

// watched is a disk that calls f before each change of it.
func watched(disk vfs.FS, f func()) vfs.FS {
	return vfstest.NewFault(disk, func(op vfstest.Op) error {
		switch op.Kind {
		case vfstest.OpCreate, vfstest.OpRemove, vfstest.OpRename, vfstest.OpSyncDir,
			vfstest.OpWriteAt, vfstest.OpTruncate, vfstest.OpSync:
			f()
		}
		return nil
	})
}

// program commits with everything that may happen in between: failed writes that
// make the log move on, failed syncs after which the process ends and starts again,
// a clean close. note is called after each step with the acknowledged and the
// newest attempted number.
func program(t *testing.T, disk vfs.FS, note func(acked, tried base.SeqNum)) {
	fail := map[vfstest.OpKind]int{} // which of the coming operations of a kind fails
	f := vfstest.NewFault(disk, func(op vfstest.Op) error {
		if fail[op.Kind]--; fail[op.Kind] != 0 {
			return nil
		}
		if op.Kind == vfstest.OpWriteAt {
			return &vfstest.ShortWriteError{N: int(op.Len) - 1, Err: errIO}
		}
		return errIO
	})
	note(0, 0)
	l, err := makeAndCreate(f, dir, initState())
	ok(t, err)
	acked := base.SeqNum(0)
	for i := 1; i <= 9; i++ {
		note(acked, base.SeqNum(10*i))
		clear(fail)
		switch i {
		case 3, 6:
			fail[vfstest.OpWriteAt] = 1
		case 5:
			fail[vfstest.OpSync] = 1
		case 7:
			fail[vfstest.OpSyncDir] = 2 // after the rename of CURRENT
		}
		s, err := l.Commit(flush(i))
		if i == 5 || i == 7 || i == 8 {
			if cerr := l.Close(); err == nil && cerr != nil {
				t.Fatal(cerr)
			}
			// What is found is what a new process builds upon.
			l, s, err = manifest.Open(f, dir)
		}
		if err == nil {
			acked = s.LastSeq
		}
		if want := base.SeqNum(10 * i); acked != want && i != 3 && i != 6 {
			t.Fatalf("the program is at %d, want %d", acked, want)
		}
		note(acked, acked)
	}
}

// A power cut after any change to the disk leaves a database that can be opened
// with the state of the last acknowledged commit or of the one that was under way,
// and that can be used from there, also if recovery is cut short in turn.
//
// Promise (durability): The manifest survives a power cut at every change of the disk, also
// during recovery.
func TestPowerCutAnywhere(t *testing.T) {
	mem := vfs.NewMem()
	ok(t, mem.MkdirAll(dir))
	disk := newDisk(mem)
	var acked, tried base.SeqNum
	n := 0
	cut := func() {
		for seed := range uint64(40) {
			rnd := rand.New(rand.NewPCG(seed, uint64(n)))
			p := []float64{0, 1, 0.5, 0.9}[seed%4]
			name := fmt.Sprintf("cut after %d changes, seed %d", n, seed)
			left := newDisk(disk.PowerCut(rnd, p))
			second, changes := (*vfs.MemFS)(nil), 0
			cutAgain := func() { // at any of the changes, or after the last
				if changes++; rnd.IntN(changes) == 0 {
					second = left.PowerCut(rnd, p)
				}
			}
			got, created := recoverAndUse(t, name, watched(left, cutAgain), tried == 0)
			cutAgain()
			if got != acked && got != tried {
				t.Fatalf("%s: found %d, want %d or %d", name, got, acked, tried)
			}
			again, _ := recoverAndUse(t, name+", twice", second, created)
			if again != got && again != 1000 {
				t.Fatalf("%s: after the second cut found %d, before %d", name, again, got)
			}
		}
		n++
	}
	program(t, watched(disk, cut), func(a, b base.SeqNum) { acked, tried = a, b })
	cut()
	if n < 50 {
		t.Errorf("only %d cuts", n)
	}
}

// recoverAndUse opens what a crash left and commits once more. It returns the
// LastSeq found, and whether it had to create the database.
func recoverAndUse(t *testing.T, name string, r vfs.FS, mayBeMissing bool,
) (found base.SeqNum, created bool) {
	t.Helper()
	exists, err := manifest.Exists(r, dir)
	if err != nil || (!exists && !mayBeMissing) {
		t.Fatalf("%s: exists %t, %v", name, exists, err)
	}
	var l *manifest.Log
	s := initState()
	if exists {
		l, s, err = manifest.Open(r, dir)
	} else {
		l, err = makeAndCreate(r, dir, s)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if s.LastSeq < 1000 {
		e := flush(99)
		e.LastSeq = 1000
		mustCommit(t, l, e)
	}
	check, _, err := manifest.Load(r, dir)
	if err != nil || check.LastSeq != 1000 {
		t.Fatalf("%s: after another commit: %v", name, err)
	}
	names, err := r.List(dir)
	ok(t, err)
	for _, o := range manifest.Orphans(check, l.Manifest(), names) {
		ok(t, r.Remove(filepath.Join(dir, o)))
	}
	return s.LastSeq, !exists
}
