package engine

import (
	"context"
	"iter"
	"sync/atomic"

	"github.com/kstonedb/kstone/internal/base"
)

// Snapshot reads the database as it was when the snapshot was taken: all commits
// acknowledged before, whole, and none after. It costs nothing to take; while it is
// open, versions that it sees are not reclaimed. Close it. Expired items disappear
// from it as time passes.
type Snapshot struct {
	db     *DB
	node   snapNode
	closed atomic.Bool
}

// Snapshot takes a snapshot of the present. The caller must Close it.
func (db *DB) Snapshot() (*Snapshot, error) {
	if db.closed.Load() {
		return nil, ErrClosed
	}
	s := &Snapshot{db: db}
	db.takeSnapshot(&s.node)
	return s, nil
}

// takeSnapshot registers the present for a reader. Every commit acknowledged before
// the call is below it.
func (db *DB) takeSnapshot(n *snapNode) base.SeqNum {
	if db.log != nil {
		db.visible.wait(db.log.LastSeq())
	}
	return db.snaps.register(n)
}

// Close ends the snapshot. It is idempotent. Iterations that are still running keep
// what they need.
func (s *Snapshot) Close() error {
	if !s.closed.Swap(true) {
		s.db.snaps.release(&s.node)
	}
	return nil
}

// Version returns the sequence number of the newest commit the snapshot contains.
func (s *Snapshot) Version() uint64 { return uint64(s.node.seq) }

func (s *Snapshot) check() error {
	if s.closed.Load() || s.db.closed.Load() {
		return ErrClosed
	}
	return nil
}

// Get is DB.Get in the snapshot.
func (s *Snapshot) Get(key Key) ([]byte, error) { return s.AppendGet(nil, key) }

// AppendGet is DB.AppendGet in the snapshot.
func (s *Snapshot) AppendGet(dst []byte, key Key) ([]byte, error) {
	var e base.Entry
	if err := s.lookup(key, &e); err != nil {
		return dst, err
	}
	if dst == nil {
		dst = make([]byte, 0, len(e.Value))
	}
	return append(dst, e.Value...), nil
}

// GetItem is DB.GetItem in the snapshot.
func (s *Snapshot) GetItem(key Key) (Item, error) {
	var e base.Entry
	if err := s.lookup(key, &e); err != nil {
		return Item{}, err
	}
	return itemOf(key, &e), nil
}

// Has is DB.Has in the snapshot.
func (s *Snapshot) Has(key Key) (bool, error) {
	var e base.Entry
	return found(s.lookup(key, &e))
}

// lookup is DB.lookup in the snapshot. If it is closed meanwhile, what was found, or not,
// need not be its content any more.
func (s *Snapshot) lookup(key Key, e *base.Entry) error {
	if err := s.check(); err != nil {
		return err
	}
	base.Yield()
	err := s.db.lookup(key, s.node.seq, e)
	if s.closed.Load() {
		return ErrClosed
	}
	return err
}

// Query is DB.Query in the snapshot.
func (s *Snapshot) Query(ctx context.Context, q Query) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		report(yield, s.db.query(ctx, &q, reader{snap: s}, yield))
	}
}

// Scan is DB.Scan in the snapshot.
func (s *Snapshot) Scan(ctx context.Context, sc Scan) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		report(yield, s.db.scan(ctx, &sc, reader{snap: s}, yield))
	}
}
