package engine

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"

	"github.com/kstonedb/kstone/engine/internal/commit"
	"github.com/kstonedb/kstone/engine/internal/source"
	"github.com/kstonedb/kstone/engine/internal/upkeep"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/wal"
)

// CheckpointOptions configure one Checkpoint. The zero value of every field is its default.
type CheckpointOptions struct {
	// BytesPerSecond limits what is copied. 0 means no limit. Hard links are free.
	BytesPerSecond int64
	// Progress, if not nil, is called by the goroutine that called Checkpoint, after every
	// file and every 256 KiB of one that is copied.
	Progress func(CheckpointProgress)
}

// CheckpointProgress says how far Checkpoint has come. The totals do not change, whatever is
// written meanwhile. A file that is linked counts with its size.
type CheckpointProgress struct {
	Files, FilesTotal int
	Bytes, BytesTotal int64
}

// Checkpoint makes a copy of the database in dest, which must not exist or be an empty
// directory, and lies outside of the database's own. Nil options mean the defaults. On the
// same file system SSTs are shared by hard links, which takes no time and no space; on
// another one, or one without links, they are copied. The log (made short by a flush) is
// copied. The copy of a database in memory is on the disk. A read-only database, which another
// process may write, is copied without a flush.
//
// Reads and writes go on meanwhile and do not wait for the copy, however long it takes: it
// works at most half of the time, so that they keep their processors and the disk. The copy
// holds every commit acknowledged before the call, and a prefix of those after, and
// opens like any database. Until it is complete, files that merges replace stay on the disk,
// and so does a part of the log, at most Options.LogBytes.
//
// If ctx ends, or anything fails, what was copied is removed. The manifest's CURRENT is
// written last, so that an interrupted checkpoint is never taken for a database.
func (db *DB) Checkpoint(ctx context.Context, dest string, o *CheckpointOptions) error {
	if o == nil {
		o = &CheckpointOptions{}
	}
	if o.BytesPerSecond < 0 {
		return invalid("checkpoint: BytesPerSecond %d is negative", o.BytesPerSecond)
	}
	return during("checkpoint", db.checkpointTo(ctx, dest, o))
}

func (db *DB) checkpointTo(ctx context.Context, dest string, o *CheckpointOptions) (err error) {
	if err := usable(ctx); err != nil {
		return err
	}
	if dest == "" {
		return invalid("checkpoint: no destination")
	}
	base := db.base
	if db.opts.InMemory {
		base = vfs.OS()
	} else if err := checkOutside(db.fs, base, dest); err != nil {
		return err
	}
	if db.follow == nil {
		if err := db.Flush(ctx); err != nil {
			return err
		}
	} else if db.reads.Closed() {
		return ErrClosed
	}
	ctx, end, err := db.calls.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	d, err := openDestination(base, dest)
	if err != nil {
		return err
	}
	c := &checkpoint{
		db: db, dest: d, report: o.Progress, duty: upkeep.BeginDuty(),
		limit: upkeep.Limiter{BytesPerSecond: o.BytesPerSecond},
	}
	complete := false
	defer func() { // also if Progress panics
		if complete {
			err = d.close()
		} else {
			err = d.abandon(err)
		}
	}()
	if err := c.run(ctx); err != nil {
		return db.explain(err)
	}
	complete = true
	return nil
}

// checkpoint is a Checkpoint call.
//
// The naive way holds the log, takes a state, copies its SSTs, and then the log. On another
// file system the SSTs take minutes. The log grows to its budget, and writers wait.
//
// The way taken: state, references on the SSTs, and the part of the log that the state needs
// are taken together, at one moment. The log's part is copied first, since a flush has made
// it short. Whatever the order, no write waits: SSTs that merges replace meanwhile, and segments
// that flushes release, stay on the disk for the copy, without counting against a budget.
//
// What a crash leaves is described in docs/crash-safety.md.
type checkpoint struct {
	db     *DB
	dest   *destination
	limit  upkeep.Limiter
	duty   upkeep.DutyCycle
	report func(CheckpointProgress) // or nil
	done   CheckpointProgress
}

func (c *checkpoint) run(ctx context.Context) error {
	p, err := c.db.pinCopy()
	if err != nil {
		return err
	}
	defer p.Release()
	state, log := p.State, p.Log
	c.done.FilesTotal, c.done.BytesTotal = log.Files(), log.Bytes()
	for _, bytes := range state.AllFiles() {
		c.done.FilesTotal++
		c.done.BytesTotal += bytes
	}
	pace := func(n int64) error { return c.copied(ctx, n) }
	if err := c.copyLog(log, pace); err != nil {
		return err
	}
	for name, bytes := range state.AllFiles() {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := c.share(name, bytes, pace); err != nil {
			return err
		}
	}
	if err := c.dest.SyncDir(c.dest.dir); err != nil {
		return err
	}
	return manifest.WriteSnapshot(c.dest, c.dest.dir, state)
}

// pinCopy keeps what a copy of the present state needs.
func (db *DB) pinCopy() (*source.Copy, error) {
	p, log, release, err := db.pinWithLog()
	if err != nil {
		return nil, db.reads.Error(err)
	}
	state := *p.State
	state.LastSeq = max(state.LastSeq, log.LastSeq()) // a copy that is cut off is noticed
	var s settings
	if state.Settings, err = withoutConsumers(state.Settings); err == nil {
		s, err = decodeSettings(state.Settings)
	}
	if err != nil {
		release()
		return nil, errors.Join(err, log.Unpin())
	}
	delete(s.Properties, settingsProperty)
	return &source.Copy{State: &state, Log: log, Release: release, Properties: s.Properties}, nil
}

// source is what package ship copies.
func (db *DB) source() *source.Source {
	return &source.Source{
		DBID: db.env.DBID, FS: db.fs, Dir: db.dir, Log: db.history.Log(), History: db.history,
		NowMs: db.nowMs, Pin: db.pinCopy,
		Beside: db.follow != nil, Visible: db.opts.Visible, Refresh: db.Refresh,
		Properties: func() (map[string][]byte, error) {
			s, err := decodeSettings(db.upkeep.State().Settings)
			delete(s.Properties, settingsProperty)
			return s.Properties, err
		},
		Follow: func() { db.followed.Store(true) },
		Commit: func(ctx context.Context, record []byte) (base.SeqNum, error) {
			b := getBatch()
			defer putBatch(b)
			err := cmp.Or(db.writable(), b.core.AddRecord(record))
			if err == nil {
				err = db.commits.Commit(ctx, &b.core, commit.Terms{}, nil)
			}
			return db.log.LastSeq(), err
		},
	}
}

// pinWithLog is pin, with the part of the log that the state needs.
func (db *DB) pinWithLog() (p *upkeep.Pinned, log *wal.Pinned, release func(), err error) {
	if db.follow != nil {
		return db.follow.PinWithLog()
	}
	if p, log, err = db.upkeep.PinWithLog(); err != nil {
		return nil, nil, nil, err
	}
	return p, log, p.Release, nil
}

// copyLog copies the log and lets go of it.
func (c *checkpoint) copyLog(log *wal.Pinned, pace func(int64) error) error {
	defer func() {
		if err := log.Unpin(); err != nil { // the next flush tries again
			c.db.opts.Logger.Warn("release log segments", "err", err)
		}
	}()
	err := log.CopyTo(c.dest, c.dest.dir, pace)
	if err == nil {
		c.advance(log.Files(), 0)
	}
	return err
}

// share gives a file a name in the destination, or a copy where that cannot be.
func (c *checkpoint) share(name string, bytes int64, pace func(int64) error) error {
	from, to := filepath.Join(c.db.dir, name), filepath.Join(c.dest.dir, name)
	if !c.db.opts.InMemory {
		err := c.dest.linkFrom(c.db.fs, from, to)
		if err == nil {
			c.advance(1, bytes)
		}
		if !vfs.CannotLink(err) {
			return err
		}
	}
	err := vfs.CopyFile(c.db.fs, from, c.dest, to, bytes, pace)
	if err == nil {
		c.advance(1, 0)
	}
	return err
}

// copied counts n more bytes of a file, pays for them, and rests.
func (c *checkpoint) copied(ctx context.Context, n int64) error {
	c.advance(0, n)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := c.limit.Wait(ctx, n); err != nil {
		return err
	}
	return c.duty.Rest(ctx)
}

func (c *checkpoint) advance(files int, bytes int64) {
	c.done.Files += files
	c.done.Bytes += bytes
	if c.report != nil {
		c.report(c.done)
	}
}
