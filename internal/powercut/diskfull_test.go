//go:build linux

package powercut_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// Goal: on a full file system a database opens, is read, and is compacted as far as there
// is room; puts succeed or fail with ErrDiskFull; every delete succeeds, also right after a
// reopening on a disk without a free block; what is deleted makes room for puts, which
// resume by themselves; nothing acknowledged is lost. Method: a small image, which a
// ballast file and the database fill.
//
// Promise (disks): A full disk is `ErrDiskFull`, at whatever byte it comes; reads go on and puts
// resume; a disk without a free block can be opened. Also (`make powercut`); in memory
// `TestDiskFullPasses`, `TestDiskFullAnywhere`; `TestDiskFull`, `TestDiskFullForLargeRecordOnly`
// in `wal`; `TestSteps`, `TestOpenOnFullDisk` in `internal/manifest`;
// `TestNoSpaceIsRecognised` in `internal/vfs`.
// Promise (disks): On a full disk every delete succeeds, in every form, also after a reopening
// without a free block; its space comes back unasked, and puts with it, within 50 ms of space
// from outside. Also `TestDeletesOnFullDisk`, `TestDeletesOnADiskThatOthersFill`,
// `TestOpenOnFullDiskAndDelete`; `TestSmallerSegmentsOnAFullDisk`, `TestMakeRoomKeepsNobodyOut`
// in `wal`.
func TestDiskFullOnRealFileSystems(t *testing.T) {
	for _, fsys := range fileSystems {
		t.Run(fsys.name, func(t *testing.T) {
			cycles(t, fsys.mkfs[0])
			size := int64(320 << 20) // the least that XFS takes is 300 MiB
			d := newImage(t, fsys, size)
			f := &fullDisk{dir: filepath.Join(d.dir, "db"), acked: map[string]int{}}
			ballast := filepath.Join(d.dir, "ballast")
			f.open(t)
			f.fill(t, 2000)
			takeSpace(t, ballast, 24<<20)
			before := len(f.acked)
			f.fillUp(t)
			full := len(f.acked)
			f.check(t)
			f.delete(t, 300)
			err := f.db.Compact(t.Context())
			if err != nil && !errors.Is(err, engine.ErrDiskFull) {
				t.Fatalf("compact on a full disk: %v", err)
			}
			f.check(t)
			if err := f.db.Close(); err != nil {
				t.Fatalf("close on a full disk: %v", err)
			}
			takeAll(t, d.dir)
			f.open(t) // still full
			f.check(t)
			f.delete(t, len(f.acked)-100)
			f.check(t)
			f.resume(t, 500) // in the space of what was deleted
			f.check(t)
			for _, name := range []string{ballast, ballast + "-rest"} {
				testutil.OK(t, os.Remove(name))
			}
			f.resume(t, 2000)
			f.check(t)
			if _, err := f.db.Verify(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			testutil.OK(t, f.db.Close())
			d.unmount(t)
			d.mount(t)
			f.open(t)
			f.check(t)
			testutil.OK(t, f.db.Close())
			d.unmount(t)
			t.Logf("%s: full after %d writes, %d refused with ErrDiskFull, %d deletes"+
				" done on the full disk, %d items at the end", fsys.name, full-before,
				f.refused, f.deleted, len(f.acked))
		})
	}
}

// fullDisk is a database with the number of the last acknowledged write of each key.
type fullDisk struct {
	dir   string
	db    *engine.DB
	acked map[string]int
	num   int

	refused, deleted int
}

func (f *fullDisk) open(t *testing.T) {
	t.Helper()
	var err error
	f.db, err = engine.Open(f.dir, &engine.Options{
		Durability: engine.Process, MemtableBytes: 2 << 20, LogBytes: 8 << 20,
	})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
}

// put writes one item of 4 KiB that does not compress.
func (f *fullDisk) put() error {
	f.num++
	pk := fmt.Sprintf("p%d", f.num%997)
	sk := fmt.Sprintf("%07d", f.num)
	err := f.db.Put(engine.Key{PK: []byte(pk), SK: []byte(sk)}, fullValue(f.num))
	if err == nil {
		f.acked[pk+"\x00"+sk] = f.num
	}
	return err
}

func fullValue(n int) []byte {
	v := make([]byte, 4<<10)
	x := uint64(n)*0x9e3779b97f4a7c15 + 1
	for i := range v {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		v[i] = byte(x)
	}
	return v
}

func (f *fullDisk) fill(t *testing.T, n int) {
	t.Helper()
	for range n {
		testutil.OK(t, f.put())
	}
}

// fillUp writes until the disk is full, and then some more. Whatever fails fails with
// ErrDiskFull, and in time.
func (f *fullDisk) fillUp(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for f.refused < 50 {
		if err := f.put(); errors.Is(err, engine.ErrDiskFull) {
			f.refused++
		} else if err != nil {
			t.Fatalf("write %d: %v", f.num, err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %d writes the disk is not full", f.num)
		}
	}
}

// delete removes n items.
func (f *fullDisk) delete(t *testing.T, n int) {
	t.Helper()
	for k := range f.acked {
		pk, sk, _ := bytes.Cut([]byte(k), []byte{0})
		if n--; n < 0 {
			return
		}
		if err := f.db.Delete(engine.Key{PK: pk, SK: sk}); err != nil {
			t.Fatalf("delete %d on a full disk: %v", f.deleted+1, err)
		}
		delete(f.acked, k)
		f.deleted++
	}
}

// resume waits until n writes have succeeded again, which must not take an action of the
// user.
func (f *fullDisk) resume(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for done := 0; done < n; {
		err := f.put()
		switch {
		case err == nil:
			done++
		case !errors.Is(err, engine.ErrDiskFull):
			t.Fatalf("there is space again, but %v", err)
		default:
			select {
			case <-tick.C:
			case <-ctx.Done():
				t.Fatalf("writes do not resume: %v", err)
			}
		}
	}
}

// check reads everything.
func (f *fullDisk) check(t *testing.T) {
	t.Helper()
	n := 0
	for it, err := range f.db.Scan(t.Context(), engine.Scan{}) {
		if err != nil {
			t.Fatalf("scan: %v", err)
		}
		num, there := f.acked[string(it.Key.PK)+"\x00"+string(it.Key.SK)]
		if !there {
			t.Fatalf("%s is there, which was deleted or refused", it.Key)
		}
		if !bytes.Equal(it.Value, fullValue(num)) {
			t.Fatalf("%s has another value", it.Key)
		}
		n++
	}
	if n != len(f.acked) {
		t.Fatalf("%d items, want %d", n, len(f.acked))
	}
}

// takeSpace makes a file that leaves about left bytes of the file system free.
func takeSpace(t *testing.T, name string, left int64) {
	t.Helper()
	n := freeBytes(t, filepath.Dir(name)) - left
	if n <= 0 {
		return
	}
	allocate(t, name, n)
}

// takeAll uses up what is free, down to single blocks.
func takeAll(t *testing.T, dir string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "ballast-rest"), os.O_CREATE|os.O_WRONLY|os.O_APPEND,
		0o600)
	testutil.OK(t, err)
	for _, size := range []int{1 << 20, 4 << 10} {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
	testutil.OK(t, errors.Join(f.Sync(), f.Close()))
}
