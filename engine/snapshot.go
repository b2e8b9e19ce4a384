package engine

import "github.com/kstonedb/kstone/engine/internal/read"

// Snapshot reads the database as it was when the snapshot was taken: all commits
// acknowledged before, whole, and none after. It costs nothing to take; while it is
// open, versions that it sees are not reclaimed. Close it. Expired items disappear
// from it as time passes. It is a [Reader].
type Snapshot struct {
	reader
	moment read.Moment
}

// Snapshot takes a snapshot of the present. The caller must Close it.
func (db *DB) Snapshot() (*Snapshot, error) {
	s := new(Snapshot)
	if err := s.moment.Take(db.reads); err != nil {
		return nil, err
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
