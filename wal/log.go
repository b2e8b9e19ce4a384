package wal

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Log is an open log. All methods are safe for concurrent use.
//
// Lock order: syncer.mu and Log.mu are never held together. No lock is held during
// an fsync, an allocation, a rename or a removal.
type Log struct {
	o      Options // immutable
	broken error   // immutable: see Broken

	mu          sync.Mutex
	cur         *segment   // Guarded by mu, as all below; nil until space is found
	off         int64      // where the next record goes in cur
	linkNum     SegmentNum // last segment before cur and its end, for cur's header
	linkEnd     int64      //
	closed      []*segment // oldest first, not released
	dirty       []*segment // have bytes that are not synced, oldest first; cur is last
	next        *segment   // prepared to become cur
	nextNum     SegmentNum // of the segment to be prepared
	spares      []*segment // released, to be used again
	obsolete    []*segment // released, removal has failed so far
	removeAt    time.Time  // when it is tried again
	removePause time.Duration
	pinned      []*segment    // released, and in use by a Pinned or a Reader
	retained    []*segment    // released, oldest first, see Options.Retain
	appended    chan struct{} // closed by the next Append; nil if nobody waits for it
	need        int64         // bytes that a waiting Append wants a segment to have
	attempts    uint64        // finished preparations
	prepareErr  error         // of the last one that failed
	failedAt    uint64        // and which of the attempts that was
	failedNeed  int64         // and the segment size that it was about
	encoded     []byte        // record buffer where there is no mapping
	done        bool          // Close has begun, or it is a View
	grows       bool          // a View, by Grow
	ready       *sync.Cond    // on mu: attempts, need, done or failure have changed
	last        base.SeqNum   // of the last record
	recordBytes uint64        // of the records appended since Open
	marked      base.SeqNum   // last at the time of the last marker
	unproved    bool          // that marker was not synced
	streamed    int64         // bytes since the last sync; see writableBytes

	lastSeq  atomic.Uint64 // last, for readers without mu
	begun    atomic.Uint64 // segments begun since Open
	synced   atomic.Uint64
	syncs    atomic.Int64
	failure  atomic.Pointer[failure] // set once
	reported atomic.Bool             // OnFailure was called

	sy          syncer
	syncing     []*segment // used by syncOnce only
	prepareKick chan struct{}
	stop        chan struct{}
	goroutines  sync.WaitGroup
	closeOnce   sync.Once
	closeErr    error
}

// Open removes what lies beyond the tail that Recover found, makes sure that what
// lies before it is durable, and goes on in the last segment, or in a new one if that
// has grown beyond smallSegmentBytes, or with Options.Retain. The first record gets sequence number
// t.LastSeq+1.
//
// The crash safety of Open, step by step. (1) Recovered records that nothing proves
// synced are written again and synced; a crash here changes nothing. (2) Files beyond
// the tail are removed and the directory is synced; a crash in between leaves some
// of them, and the next recovery finds the same tail. (3) What lies beyond the tail in
// the last segment is cut off, and the cut is synced; a crash before that leaves it or
// not, and it is not part of the log. Why cut and synced before anything is appended: a
// torn record that had lost its predecessor would follow a new one of the same length.
// (4) A marker is written after the last record and synced, if there is none. A crash
// before that leaves the same log without it. A log that was closed goes through all
// four without a write or a sync.
//
// In place of (3) and (4) a new segment is made where the last one is too large or there
// is none; its header, which says where the previous one ends, is synced with its name and
// with a marker. A crash before that leaves a file with no valid header, which the next
// Open removes. From then on the end of the previous segment is fixed by that header.
//
// Without a single byte of disk space Open succeeds nevertheless; Append then fails
// with vfs.ErrNoSpace until there is space.
func Open(o Options, t Tail) (*Log, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if t.highest-t.Segment >= math.MaxUint32 {
		return nil, corrupt.New(o.path(t.highest), -1, "log", "segment numbers close together",
			fmt.Sprintf("%d and %d", t.Segment, t.highest))
	}
	l := &Log{o: o, linkNum: t.Segment, linkEnd: t.records, last: t.LastSeq, marked: base.MaxSeqNum,
		nextNum: t.highest + 1, prepareKick: make(chan struct{}, 1), stop: make(chan struct{})}
	l.ready = sync.NewCond(&l.mu)
	l.sy.init()
	l.lastSeq.Store(uint64(t.LastSeq))
	l.synced.Store(uint64(t.LastSeq))
	if err := l.keepRetained(&t); err != nil {
		return nil, err
	}
	if err := l.settle(t); err != nil {
		return nil, err
	}
	resumed, err := l.resume(t)
	if !resumed && err == nil {
		if err = l.startFirst(); errors.Is(err, vfs.ErrNoSpace) {
			err = nil
		}
	}
	if err != nil {
		return nil, errors.Join(err, l.releaseAll())
	}
	l.goroutines.Go(l.syncLoop)
	l.goroutines.Go(l.prepareLoop)
	kick(l.prepareKick)
	return l, nil
}

// settle does steps 1 and 2 of Open.
func (l *Log) settle(t Tail) error {
	if !t.recovered {
		names, err := l.o.FS.List(l.o.Dir)
		if err != nil {
			return fmt.Errorf("list log segments: %w", err)
		}
		for _, name := range names {
			if _, ok := ParseFileName(name); ok {
				return fmt.Errorf("open log: %s exists in %s, and was not recovered", name, l.o.Dir)
			}
		}
		return nil
	}
	for _, s := range t.keep {
		// Known durable are records up to t.synced, and with them the headers of their
		// segments; of a segment without records not even that. A marker at the end need
		// not be durable: the next header does not rely on it.
		if s.last > t.synced || s.last < s.base {
			if err := s.rewrite(l.o.FS); err != nil {
				return err
			}
		}
	}
	l.closed = t.keep
	if len(t.drop) == 0 {
		return nil
	}
	for _, n := range t.drop {
		if err := l.o.FS.Remove(l.o.path(n)); err != nil {
			return fmt.Errorf("remove log segment beyond the end: %w", err)
		}
	}
	if err := l.o.FS.SyncDir(l.o.Dir); err != nil {
		return fmt.Errorf("sync log directory: %w", err)
	}
	return nil
}

// startFirst makes a new segment for Open. The marker says that all recovered records are
// durable: from here on their loss would be noticed.
func (l *Log) startFirst() error {
	size := min(growBytes, l.smallest())
	s, err := l.makeSegment(l.nextNum, size, size, nil)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = s
	l.nextNum++
	if err := l.switchLocked(); err != nil {
		return err
	}
	if err := l.markLocked(); err != nil {
		return err
	}
	if err := s.sync(); err != nil {
		return l.fail(err)
	}
	s.durable = true
	return nil
}

// LastSeq returns the sequence number of the last record that was appended.
func (l *Log) LastSeq() base.SeqNum { return base.SeqNum(l.lastSeq.Load()) }

// SyncedSeq returns the sequence number up to which all records are durable.
func (l *Log) SyncedSeq() base.SeqNum { return base.SeqNum(l.synced.Load()) }

// Begun returns how many segments have been begun since Open.
func (l *Log) Begun() uint64 { return l.begun.Load() }

// Syncs returns how often segments have been synced since Open.
func (l *Log) Syncs() int64 { return l.syncs.Load() }

// RecordBytes returns the size of all records appended since Open, without their headers.
func (l *Log) RecordBytes() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recordBytes
}

// Err returns why the log has failed for good, nil if it has not.
func (l *Log) Err() error {
	if f := l.failure.Load(); f != nil {
		return f
	}
	return nil
}

// fail makes err the sticky failure, unless there is one already, and returns the
// one that holds. The caller reports it when it holds no lock.
func (l *Log) fail(err error) error {
	l.failure.CompareAndSwap(nil, &failure{err})
	return l.Err()
}

// report wakes all waiting callers and calls OnFailure, once, if the log has failed.
//
// Requires: no lock is held.
func (l *Log) report() {
	err := l.Err()
	if err == nil || !l.reported.CompareAndSwap(false, true) {
		return
	}
	l.mu.Lock()
	l.ready.Broadcast()
	l.wakeLocked()
	l.mu.Unlock()
	if l.o.OnFailure != nil {
		l.o.OnFailure(err)
	}
}

// usableLocked says why nothing can be appended, nil if something can.
func (l *Log) usableLocked() error {
	if err := l.Err(); err != nil {
		return err
	}
	if l.done {
		return ErrClosed
	}
	return nil
}

// Close syncs the log, notes in it that everything is durable, ends its goroutines
// and closes its files. Concurrent Sync calls get their answer. Later calls return
// what the first returned: nil, or why not everything could be made durable.
func (l *Log) Close() error {
	l.closeOnce.Do(func() { l.closeErr = l.close() })
	return l.closeErr
}

func (l *Log) close() error {
	l.mu.Lock()
	l.done = true
	l.ready.Broadcast()
	l.wakeLocked()
	l.mu.Unlock()
	close(l.stop)
	l.goroutines.Wait()
	l.sy.turn <- struct{}{}
	err := l.syncOnce()
	if err == nil {
		err = l.markClosed()
	}
	l.sy.finish(err)
	<-l.sy.turn
	l.report()
	if err == nil {
		l.trim()
	}
	return errors.Join(err, l.releaseAll())
}

// trim gives back the disk space that a closed log does not need: segments without
// records, and the rest of the current one. A small database would otherwise take many
// times its size. Nothing is synced and errors are dropped: whatever a failure or a
// crash leaves, the next Open removes it or reads past it.
//
// Why through the open file: by its path the file may be that of another log by now.
func (l *Log) trim() {
	l.mu.Lock()
	defer l.mu.Unlock()
	unused := append(l.spares, l.obsolete...)
	if l.next != nil {
		_ = l.next.release()
		unused = append(unused, l.next)
	}
	for _, s := range unused {
		_ = l.o.FS.Remove(s.path)
	}
	l.spares, l.obsolete, l.next = nil, nil, nil
	end := l.off
	if l.marked == l.last {
		end += recordHeader
	}
	if s := l.cur; s != nil && s.size != end && s.unmap() == nil {
		_ = s.file.Truncate(end)
	}
}

// markClosed sees to it that a durable marker follows the last record. Why: without it damage to
// the very last records would pass for a torn tail.
func (l *Log) markClosed() error {
	l.mu.Lock()
	s := l.cur
	if s == nil || l.marked == l.last && !l.unproved {
		l.mu.Unlock() // no record since the last marker
		return nil
	}
	var err error
	if l.marked != l.last {
		err = l.markLocked()
	}
	l.unproved = false
	l.mu.Unlock()
	if err == nil {
		err = s.sync()
	}
	if err != nil {
		return l.fail(fmt.Errorf("mark the end of the log: %w", err))
	}
	return nil
}

// markLocked writes a marker after the last record: everything so far is durable. The
// next record takes its place, and says the same.
//
// Requires: it is.
func (l *Log) markLocked() error {
	if err := l.placeMarkerLocked(); err != nil {
		return l.fail(err)
	}
	return nil
}

// placeMarkerLocked is markLocked without consequences of an error.
func (l *Log) placeMarkerLocked() error {
	if err := l.putLocked(recordHeader, 0, markerLength, l.last, nil); err != nil {
		return err
	}
	l.off -= recordHeader
	l.marked = l.last
	return nil
}

// releaseAll closes all files.
func (l *Log) releaseAll() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, s := range l.dirty {
		errs = append(errs, s.release())
	}
	if l.next != nil {
		errs = append(errs, l.next.release())
	}
	return errors.Join(errs...)
}

func kick(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
