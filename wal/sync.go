package wal

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
)

// # Group commit
//
// A sync takes tens of microseconds on a fast disk and milliseconds on a slow one, for one record
// or for a thousand. Callers that wait for durability at the same time share one.
//
// The naive way, first: a caller that finds a sync in progress waits for its end.
//
// Why it fails: the sync may not cover the caller's record.
//
//	A: appends 7; syncOnce takes 7 as its target and calls fdatasync
//	B: Append returns 8, after the kernel has picked the pages to write
//	A: fdatasync returns
//	B: is acknowledged; the power fails; 8 is lost
//
// The naive way, second: one goroutine runs all syncs.
//
// Why it fails: it is correct, and slow for a single writer, which is switched out and in again
// around each sync. One writer had 0.66 of Pebble's rate, and has 1.47 of it with the way taken
// (docs/decisions/0015).
//
// The way taken: callers join the pending batch. The holder of the turn takes the batch, which
// closes it, and only then reads the target under Log.mu. A caller joins after its Append, so its
// record is at or below the target, and its bytes are stored. The first caller of a batch takes
// the turn if it is free: it leads and syncs inline. If not, it kicks syncLoop, which waits for
// the turn. So a leader syncs once and returns, however many callers follow. Before the batch is
// taken the leader yields, and writers that are about to join do; see await.
//
// No batch is forgotten. The holder of the turn takes it later, or the kick is still in its
// channel, or syncLoop has the kick and waits for the turn. Close answers what is pending last.
//
// Invariants: one sync at a time. Segments are synced oldest first. The synced number is stored
// after the sync of all records up to it. After a failed sync the log has failed for good: the
// batch gets that error, as do all later ones, because a second fdatasync may report success for
// pages that the kernel has given up.
//
// What a crash leaves: after a kill, every record whose Append returned. After a power cut, all
// records up to the synced number, and of the later ones a prefix: the first record that does not
// pass ends the log. What was acknowledged at Sync is in the former part.

// syncer forms the batches of callers that share a sync, and passes on the turn to sync.
type syncer struct {
	kick chan struct{}
	turn chan struct{} // capacity 1; full while a sync runs

	// Of the holder of the turn, see await.
	expected int
	took     time.Duration // by the last sync
	hasty    int           // batches that do not wait

	mu       sync.Mutex
	pending  *syncBatch // Guarded by mu; nil if no caller waits
	finished bool       // Guarded by mu; no sync will happen any more
}

type syncBatch struct {
	callers int           // Guarded by syncer.mu
	done    chan struct{} // closed after err is set
	err     error
}

func (y *syncer) init() {
	y.kick, y.turn = make(chan struct{}, 1), make(chan struct{}, 1)
}

// join returns the batch to wait for; nil means that the syncer has finished. If lead,
// it is the caller's turn to sync.
func (y *syncer) join() (b *syncBatch, lead bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.finished {
		return nil, false
	}
	if y.pending == nil {
		y.pending = &syncBatch{done: make(chan struct{})}
		select {
		case y.turn <- struct{}{}:
			lead = true
		default:
			kick(y.kick)
		}
	}
	y.pending.callers++
	return y.pending, lead
}

// waiting returns how many callers have joined the pending batch.
func (y *syncer) waiting() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.pending == nil {
		return 0
	}
	return y.pending.callers
}

const (
	// awaitPart is the part of a sync's time for which a batch waits at most, as its inverse.
	awaitPart = 4
	// awaitYields bounds it where no time passes, as in tests.
	awaitYields = 1000
	// hastyBatches do not wait after one that has waited in vain.
	hastyBatches = 8
)

// await lets callers join the pending batch before it is taken: first those that are about to,
// where goroutines outnumber processors, then those that the last sync has answered, if they come
// back soon. Without it, many callers form two groups that wait for each other's syncs.
func (y *syncer) await() {
	runtime.Gosched()
	before := y.waiting()
	if before == 0 || before >= y.expected {
		return
	}
	if y.hasty > 0 {
		y.hasty--
		return
	}
	now := before
	start := time.Now()
	for i := 0; i < awaitYields && now < y.expected && time.Since(start) < y.took/awaitPart; i++ {
		runtime.Gosched()
		now = y.waiting()
	}
	if 2*(now-before) < y.expected-before {
		y.hasty = hastyBatches
	}
}

// take closes the pending batch to newcomers and returns it, or nil.
func (y *syncer) take() *syncBatch {
	y.mu.Lock()
	defer y.mu.Unlock()
	b := y.pending
	y.pending = nil
	return b
}

// finish answers the last batch after the final sync.
func (y *syncer) finish(err error) {
	y.mu.Lock()
	y.finished = true
	b := y.pending
	y.pending = nil
	y.mu.Unlock()
	b.answer(err)
}

func (b *syncBatch) answer(err error) {
	if b != nil {
		b.err = err
		close(b.done)
	}
}

// Sync returns when every record up to seq is durable. A seq beyond the last record
// means all there are. After the log has failed it returns that failure, also for
// records that were synced before.
func (l *Log) Sync(seq base.SeqNum) error {
	if err := l.Err(); err != nil {
		return err
	}
	if min(seq, l.LastSeq()) <= l.SyncedSeq() {
		return nil
	}
	return l.barrier()
}

// barrier makes all records and the header of the current segment durable.
func (l *Log) barrier() error {
	b, lead := l.sy.join()
	if b == nil {
		return l.Err() // Close was faster, and has made everything durable unless it failed
	}
	if lead {
		l.syncBatch()
		<-l.sy.turn
		l.report()
	}
	<-b.done
	return b.err
}

// syncBatch syncs for all callers that have joined. Requires: it is the caller's turn.
func (l *Log) syncBatch() {
	l.sy.await()
	b := l.sy.take()
	start := time.Now()
	err := l.syncOnce()
	l.sy.took, l.sy.expected = time.Since(start), l.sy.waiting()
	if b != nil {
		l.sy.expected += b.callers
	}
	b.answer(err)
}

func (l *Log) syncLoop() {
	for {
		select {
		case <-l.stop:
			return // Close does the last sync
		case <-l.sy.kick:
		}
		l.sy.turn <- struct{}{}
		l.syncBatch()
		<-l.sy.turn
		l.report()
	}
}

// syncOnce makes everything durable that was appended before the call. Segments are
// synced oldest first, so that what a crash leaves is a prefix.
//
// Requires: it is the caller's turn, see syncer.
func (l *Log) syncOnce() error {
	l.mu.Lock()
	if err := l.Err(); err != nil {
		l.mu.Unlock()
		return err
	}
	target := l.last
	if len(l.dirty) == 1 && l.dirty[0].durable && target == l.SyncedSeq() {
		l.mu.Unlock()
		return nil
	}
	l.syncing = append(l.syncing[:0], l.dirty...)
	segments := l.syncing
	// All but the last are closed and complete. The last one is the current segment, and may get
	// records from now on.
	full := segments[:max(len(segments)-1, 0)]
	if l.streamed < 2*writableBytes {
		l.streamed = 0
	} else {
		l.streamed = writableBytes // it streams on, if as much comes again
	}
	end := l.off
	var from, n int64
	if len(segments) > 0 {
		from, n = segments[len(full)].storedLocked(end)
	}
	l.mu.Unlock()

	if len(segments) > 0 {
		segments[len(full)].letGo(from, n)
		segments[len(full)].populate(end)
	}
	for i, s := range segments {
		if i < len(full) { // why before the sync: see letGo
			if err := s.unmap(); err != nil {
				return l.fail(err)
			}
		}
		if err := s.sync(); err != nil {
			return l.fail(err)
		}
		l.syncs.Add(1)
	}

	l.mu.Lock()
	for _, s := range segments {
		s.durable = true
	}
	for _, s := range full {
		s.dirty = false
	}
	l.dirty = append(l.dirty[:0], l.dirty[len(full):]...)
	l.synced.Store(uint64(target))
	err := l.proveLocked()
	l.mu.Unlock()
	if err != nil {
		return err
	}
	for _, s := range full {
		if err := s.release(); err != nil {
			return l.fail(fmt.Errorf("close log segment %s: %w", s.path, err))
		}
	}
	return l.Err() // a write may have failed meanwhile: no success after that
}

// proveLocked writes a marker if all records are durable. Without one, Open takes damage to the
// last records, or a missing segment, for a torn tail and cuts it. The marker is not synced before
// Close: a power cut may remove it, a kill does not.
func (l *Log) proveLocked() error {
	if l.cur == nil || l.last != l.SyncedSeq() || l.marked == l.last {
		return nil
	}
	err := l.placeMarkerLocked()
	if errors.Is(err, vfs.ErrNoSpace) {
		return nil // it is a proof for later
	} else if err != nil {
		return l.fail(err)
	}
	l.unproved = true
	return nil
}
