package engine

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/kstonedb/kstone/engine/internal/history"
	"github.com/kstonedb/kstone/engine/internal/read"
	"github.com/kstonedb/kstone/internal/base"
)

// Snapshot reads the database as it was when the snapshot was taken: all commits
// acknowledged before, whole, and none after. Taking one is cheap; while it is
// open, versions that it sees are not reclaimed. The caller must Close it. Expired items
// disappear from it as time passes, but not from one of the past. It is a [Reader].
type Snapshot struct {
	reader
	db     *DB
	moment read.Moment
}

// Snapshot takes a snapshot of the present. The caller must Close it.
func (db *DB) Snapshot() (*Snapshot, error) {
	s := &Snapshot{db: db}
	if err := s.moment.Take(db.reads); err != nil {
		return nil, err
	}
	s.from = db.reads.Reader(&s.moment, nil)
	return s, nil
}

// PastError says that the database cannot be read as it was at a moment. It matches ErrGone. Its
// fields are
//
//	Version    uint64    // of the commit that was asked for; 0: a time was
//	Time       time.Time // that was asked for
//	Oldest     uint64    // version of the oldest commit that can be read at
//	OldestTime time.Time // about when it was the newest; zero: not known
//	Newest     uint64    // version of the newest commit
//	Off        bool      // versions of the past are not kept at all
type PastError = history.PastError

// SnapshotAt takes a snapshot of the database as it was after a commit, with all items that had not
// expired then. It needs Options.RetainVersions. If the versions of that time are not kept, or the
// commit is not there, the error is a *PastError. The caller must Close the snapshot.
func (db *DB) SnapshotAt(version uint64) (*Snapshot, error) {
	return db.snapshotAt(base.SeqNum(version), time.Time{})
}

// SnapshotAtTime is SnapshotAt of the newest commit known to have been there at a time: some
// commits of the second before t may be missing. t is a time of the machine's clock, not of
// Options.Clock.
func (db *DB) SnapshotAtTime(t time.Time) (*Snapshot, error) {
	if db.reads.Closed() {
		return nil, ErrClosed
	}
	if t.After(db.opts.Clock()) {
		return nil, invalid("snapshot of %v: the time is still to come", t)
	}
	return db.snapshotAt(db.history.Commit(t), t)
}

func (db *DB) snapshotAt(seq base.SeqNum, t time.Time) (*Snapshot, error) {
	s := &Snapshot{db: db}
	kept, err := s.moment.TakeAt(db.reads, seq, db.history.Moment(seq))
	if err != nil {
		return nil, err
	}
	if !kept {
		if !t.IsZero() {
			seq = 0
		}
		return nil, db.history.Past(seq, t)
	}
	s.from = db.reads.Reader(&s.moment, nil)
	return s, nil
}

// Close ends the snapshot. It is idempotent. Iterations that are still running keep
// what they need.
func (s *Snapshot) Close() error {
	s.moment.Release()
	return nil
}

// Version returns the sequence number of the newest commit the snapshot contains.
func (s *Snapshot) Version() uint64 { return uint64(s.moment.Seq()) }

// before reads what changes replace.
type before struct {
	db   *DB
	of   uint64    // the commit
	at   *Snapshot // the moment before it, nil if that is not kept
	item Item
	err  error
}

// read completes a change.
func (b *before) read(c *Change) error {
	if c.Kind == ChangeDeleteRange {
		return nil
	}
	if b.of != c.Version {
		b.close()
		b.of = c.Version
		at, err := b.db.SnapshotAt(c.Version - 1)
		if err != nil && !errors.Is(err, ErrGone) {
			return err
		}
		b.at = at
	}
	if c.Known = b.at != nil || c.Version == 1; b.at == nil {
		return nil
	}
	item, err := b.at.GetItem(c.Key)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err == nil {
		b.item = item
		c.Before = &b.item
	}
	return err
}

func (b *before) close() {
	if b.at != nil {
		_ = b.at.Close() // never fails
		b.at = nil
	}
}

// ScanParallel is Snapshot.ScanParallel of the present.
func (db *DB) ScanParallel(
	ctx context.Context, s Scan, workers int, fn func(Item) error,
) error {
	snap, err := db.Snapshot()
	if err != nil {
		return err
	}
	defer snap.moment.Release()
	return snap.ScanParallel(ctx, s, workers, fn)
}

// ScanParallel calls fn for the items that s selects, from several goroutines: as many as
// workers, or as there are processors if that is 0, at most 256. The items come in no order;
// each is valid during its call of fn. The first error of fn, or of the scan, ends all of it
// and is returned when no call is running any more. From, To and Filter count, and Filter is
// called concurrently, too; what makes a part or a sequence of a scan (Segments, Limit,
// After, StartAfter, Reverse) must not be set.
func (s *Snapshot) ScanParallel(
	ctx context.Context, scan Scan, workers int, fn func(Item) error,
) error {
	switch {
	case scan.Segment != 0 || scan.Segments != 0 || scan.Limit != 0 || scan.After != nil ||
		scan.Share != nil || scan.startsAfter() || scan.Reverse:
		return invalid("scan: a parallel one has neither parts nor an order")
	case workers < 0:
		return invalid("scan: %d workers", workers)
	case workers == 0:
		workers = runtime.GOMAXPROCS(0)
	}
	if err := usable(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	scan.Unordered, scan.Share = true, new(Share)
	var wg sync.WaitGroup
	for range min(workers, base.NumStripes) {
		wg.Go(func() {
			for item, err := range s.Scan(ctx, scan) {
				if err == nil {
					err = fn(item)
				}
				if err != nil {
					stop(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
