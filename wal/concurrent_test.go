package wal_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/wal"
)

// tagged is record i of goroutine g, of varying length.
func tagged(g, i int) []byte {
	p := binary.BigEndian.AppendUint32(nil, uint32(g))
	p = binary.BigEndian.AppendUint32(p, uint32(i))
	return append(p, make([]byte, (g*31+i*7)%90)...)
}

// Many goroutines append and sync while others copy and release. Every acknowledged
// record is there afterwards, in the order of its sequence number.
func TestConcurrentAppendSync(t *testing.T) {
	eachKind(t, 4<<10, func(t *testing.T, o wal.Options) {
		const goroutines, each = 12, 150
		l := openNew(t, o)
		var mu sync.Mutex
		acked := map[base.SeqNum][2]int{}
		var wg, background sync.WaitGroup
		for g := range goroutines {
			wg.Go(func() {
				for i := range each {
					p := tagged(g, i)
					if i%50 == 49 {
						p = append(p, make([]byte, 6<<10)...) // larger than a segment
					}
					seq, err := l.Append(p)
					if err == nil && i%3 != 0 {
						if err = l.Sync(seq); err == nil && l.SyncedSeq() < seq {
							err = fmt.Errorf("synced %d after Sync(%d)", l.SyncedSeq(), seq)
						}
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					acked[seq] = [2]int{g, i}
					mu.Unlock()
				}
			})
		}
		stop := make(chan struct{})
		background.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				copyAndCheck(t, l, o)
				ok(t, l.Release(1)) // nothing, but under the same locks
				l.Segments()
				l.SizeBytes()
				l.FirstSegment(l.SyncedSeq())
			}
		})
		wg.Wait()
		close(stop)
		background.Wait()
		ok(t, l.Close())
		n := base.SeqNum(0)
		next := map[int]int{}
		_, err := wal.Recover(o, 0, 1, func(_ wal.SegmentNum, seq base.SeqNum, p []byte) error {
			n++
			g, i := int(binary.BigEndian.Uint32(p)), int(binary.BigEndian.Uint32(p[4:]))
			if seq != n || acked[seq] != [2]int{g, i} || next[g] != i {
				return fmt.Errorf("record %d is %d of %d, not %v", seq, i, g, acked[seq])
			}
			next[g]++
			return nil
		})
		ok(t, err)
		if n != goroutines*each {
			t.Fatalf("%d records, want %d", n, goroutines*each)
		}
	})
}

// count returns an apply function that counts.
func count(n *base.SeqNum) func(wal.SegmentNum, base.SeqNum, []byte) error {
	return func(wal.SegmentNum, base.SeqNum, []byte) error {
		*n++
		return nil
	}
}

// copyAndCheck copies the running log and recovers the copy.
func copyAndCheck(t *testing.T, l *wal.Log, o wal.Options) {
	o.FS = vfs.NewMem()
	if err := o.FS.MkdirAll("copy"); err != nil {
		t.Error(err)
		return
	}
	last, err := copyLog(l, o.FS, "copy", 0)
	if err != nil {
		t.Error(err)
		return
	}
	o.Dir = "copy"
	n := base.SeqNum(0)
	tail, err := wal.Recover(o, 0, 1, count(&n))
	if err != nil || n != last || tail.LastSeq != last {
		t.Errorf("copy up to %d has %d records: %v", last, n, err)
	}
}

// Release and recycling race with appends and copies.
func TestConcurrentRelease(t *testing.T) {
	eachKind(t, 1<<10, func(t *testing.T, o wal.Options) {
		l := openNew(t, o)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 300 {
					if _, err := l.Append(make([]byte, 40)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Go(func() {
			for range 100 {
				if err := l.Release(l.LastSeq() / 2); err != nil {
					t.Error(err)
				}
				if err := l.Sync(l.LastSeq()); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Wait()
		half := l.LastSeq() / 2
		from := l.FirstSegment(half)
		ok(t, l.Close())
		n := base.SeqNum(0)
		_, err := wal.Recover(o, from, half, count(&n))
		ok(t, err)
		if n != 1200-half+1 {
			t.Fatalf("%d records from %d on", n, half)
		}
	})
}

// Close answers all waiting callers, and afterwards nothing is accepted.
func TestCloseWhileInUse(t *testing.T) {
	for range 20 {
		o := memOptions(1 << 10)
		l := openNew(t, o)
		var wg sync.WaitGroup
		var mu sync.Mutex
		durable := base.SeqNum(0)
		started := make(chan struct{}, 6)
		for range 6 {
			wg.Go(func() {
				for i := 0; ; i++ {
					if i == 5 {
						started <- struct{}{}
					}
					seq, err := l.Append(make([]byte, 30))
					if err == nil {
						err = l.Sync(seq)
					}
					if errors.Is(err, wal.ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					durable = max(durable, seq)
					mu.Unlock()
				}
			})
		}
		for range 6 {
			<-started
		}
		wg.Go(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		ok(t, l.Close())
		wg.Wait()
		if tail := mustTail(t, o); tail.LastSeq < durable || tail.TornBytes != 0 {
			t.Fatalf("log ends at %d (%d torn bytes), %d was durable",
				tail.LastSeq, tail.TornBytes, durable)
		}
		ok(t, l.Sync(durable))
	}
}

// gated wraps the file system of o: armed operations of one kind, of at least min
// bytes, wait for the gate and then return err.
func gated(
	o *wal.Options, kind vfstest.OpKind, min int64, err error,
) (*atomic.Bool, chan struct{}) {
	gate, armed := make(chan struct{}), new(atomic.Bool)
	o.FS = vfstest.NewFault(o.FS, func(op vfstest.Op) error {
		if op.Kind == kind && op.Len >= min && armed.Load() {
			<-gate
			return err
		}
		return nil
	})
	return armed, gate
}

// A manifest may rely on a segment only when its header is durable.
//
// Promise (durability): A segment is relied upon only when its header is durable, released only
// when the next one is. Also `TestReleaseSyncsTheSuccessorFirst` in `wal`.
func TestFirstSegmentIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := memOptions(512)
		armed, gate := gated(&o, vfstest.OpSync, 0, nil)
		l := openNew(t, o)
		synctest.Wait()
		armed.Store(true)
		for l.LastSeq() == 0 || l.Segments()[0].State != wal.SegmentClosed {
			fill(t, l, l.LastSeq()+1)
		}
		synctest.Wait()
		if got := l.FirstSegment(l.LastSeq()); got != 1 {
			t.Fatalf("segment %d before its first sync, want 1", got)
		}
		armed.Store(false)
		close(gate)
		synctest.Wait()
		if got := l.FirstSegment(l.LastSeq()); got != 2 {
			t.Fatalf("segment %d after the sync, want 2", got)
		}
		ok(t, l.Close())
	})
}

// A sync that was under way when a write failed does not report success either.
func TestWriteFailsDuringSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := memOptions(4 << 10)
		failing, _ := faulty(&o, vfstest.OpWriteAt, errBoom)
		armed, gate := gated(&o, vfstest.OpSync, 0, nil)
		l := openNew(t, o)
		fill(t, l, 3)
		armed.Store(true)
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := l.Sync(3); !errors.Is(err, errBoom) {
				t.Errorf("sync: %v", err)
			}
		})
		synctest.Wait()
		failing.Store(true)
		wantIs(t, second(l.Append(nil)), errBoom)
		close(gate)
		wg.Wait()
		wantIs(t, l.Close(), errBoom)
	})
}

// A small record that waits while space for a large one is sought does not get the
// large one's error.
func TestSmallRecordBesideALargeOne(t *testing.T) {
	for range 30 { // which waiter wakes first is not determined
		synctest.Test(t, smallRecordBesideALargeOne)
	}
}

func smallRecordBesideALargeOne(t *testing.T) {
	o := memOptions(512)
	armed, gate := gated(&o, vfstest.OpAllocate, 10_000, vfs.ErrNoSpace)
	l := openNew(t, o)
	synctest.Wait()
	armed.Store(true)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := l.Append(make([]byte, 20_000)); !errors.Is(err, vfs.ErrNoSpace) {
			t.Errorf("large: %v", err)
		}
	})
	synctest.Wait()
	wg.Go(func() {
		for range 30 {
			if _, err := l.Append(make([]byte, 100)); err != nil {
				t.Errorf("small: %v", err)
			}
		}
	})
	synctest.Wait()
	gate <- struct{}{}
	wg.Wait()
	if l.LastSeq() != 30 {
		t.Fatalf("%d records, want 30", l.LastSeq())
	}
	ok(t, l.Close())
}

// One sync serves all waiting callers; one that comes while it runs waits for the next.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := memOptions(1 << 20)
		armed, gate := gated(&o, vfstest.OpSync, 0, nil)
		l := openNew(t, o)
		var wg sync.WaitGroup
		appendAndSync := func() {
			wg.Go(func() {
				seq, err := l.Append(make([]byte, 10))
				if err == nil {
					err = l.Sync(seq)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		armed.Store(true)
		appendAndSync()
		synctest.Wait() // its sync is under way
		for range 50 {
			appendAndSync()
		}
		synctest.Wait()
		gate <- struct{}{}
		synctest.Wait()
		if l.LastSeq() != 51 || l.SyncedSeq() != 1 {
			t.Fatalf("last %d, synced %d, want 51 and 1", l.LastSeq(), l.SyncedSeq())
		}
		gate <- struct{}{}
		wg.Wait()
		if l.SyncedSeq() != 51 || l.Syncs() != 2 {
			t.Fatalf("synced %d with %d syncs, want 51 with 2", l.SyncedSeq(), l.Syncs())
		}
		armed.Store(false)
		ok(t, l.Close())
	})
}
