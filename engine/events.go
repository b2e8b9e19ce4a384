package engine

import "time"

// Events are callbacks for what happens in the background. Any may be nil. They are
// called without locks held, from the goroutine that did the work, which goes on when
// they return: keep them short. They may use the database, but not close it, except
// for ReadOnly, which has a goroutine of its own. A write may have to wait for flushes and
// merges; in Flushed and Compacted that is a wait for themselves, without end: under a load
// that slows writers down, or with a disk that may become full, write in another goroutine.
type Events struct {
	// Flushed is called after memtables were written to SSTs.
	Flushed func(FlushEvent)
	// Compacted is called after runs of a stripe were merged.
	Compacted func(CompactionEvent)
	// Stalled is called in a writer's goroutine after it had to wait for flushes or
	// compactions, before it writes.
	Stalled func(time.Duration)
	// ReadOnly is called once if a failed write or sync turns the database
	// read-only, with the cause.
	ReadOnly func(error)
}

// FlushEvent describes a flush of a group of stripes.
type FlushEvent struct {
	Stripes  int   // stripes flushed together
	Bytes    int64 // file bytes written
	Duration time.Duration
}

// CompactionEvent describes a merge of runs of one stripe.
type CompactionEvent struct {
	Stripe       int
	Runs         int // runs that became one, or none if nothing was left
	BytesRead    int64
	BytesWritten int64
	Duration     time.Duration
}
