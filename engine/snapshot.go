package engine

import "github.com/kstonedb/kstone/internal/base"

// Snapshot reads the database as it was when the snapshot was taken: all commits
// acknowledged before, whole, and none after. It costs nothing to take; while it is
// open, versions that it sees are not reclaimed. Close it. Expired items disappear
// from it as time passes. It is a [Reader].
type Snapshot struct {
	reader
	moment
}

// Snapshot takes a snapshot of the present. The caller must Close it.
func (db *DB) Snapshot() (*Snapshot, error) {
	if db.closed.Load() {
		return nil, ErrClosed
	}
	s := new(Snapshot)
	s.reader = reader{db: db, at: &s.moment}
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
	s.release(s.db)
	return nil
}

// Version returns the sequence number of the newest commit the snapshot contains.
func (s *Snapshot) Version() uint64 { return uint64(s.node.seq) }
