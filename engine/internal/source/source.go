// Package source is what copying asks of an open database: package ship, which copies a database
// that others write to, knows it by a Source alone. Why not methods of engine.DB: files, records
// and positions are of no use to other callers.
package source

import (
	"context"
	"time"

	"github.com/kstonedb/kstone/engine/internal/history"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/wal"
)

// Of returns the source of a database, an *engine.DB. Package engine sets it.
var Of func(db any) *Source

// Hurry makes options of package ship, which sets it, those of a shipper that does its upkeep so
// often and merges and removes objects of any age. For tests, also of destinations elsewhere.
var Hurry func(options any, every time.Duration)

// Source is an open database. The functions may be called concurrently.
type Source struct {
	DBID    [16]byte
	FS      vfs.FS
	Dir     string
	Log     *wal.Log
	History *history.History
	NowMs   func() int64

	// Beside says that the database is opened read-only, so that another process may write it: Log
	// is what is shown of it, and what was pinned may go, up to the limits for readers.
	Beside bool
	// Visible says that Log has commits that are not durable.
	Visible bool
	// Refresh makes Log show what the other process had made durable before the call.
	Refresh func() error

	// Pin keeps the files of the present state for a copy, until its Release.
	Pin func() (*Copy, error)
	// Properties returns the properties, of layers above.
	Properties func() (map[string][]byte, error)
	// Follow makes all commits from now on fail with ErrReadOnly, but those of Commit.
	Follow func()
	// Commit makes one commit of a record of another log. It returns its seq, which is durable
	// with the next sync.
	Commit func(ctx context.Context, record []byte) (base.SeqNum, error)
}

// Copy is a state of a database with the files that belong to it. The log has every commit up to
// its last; those that are not synced yet may be among them.
type Copy struct {
	State   *manifest.State // without consumers
	Log     *wal.Pinned     // the caller calls Unpin
	Release func()          // lets go of the SSTs
	// Properties are those of the state.
	Properties map[string][]byte
}
