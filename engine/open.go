package engine

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"time"

	"github.com/kstonedb/kstone/engine/internal/commit"
	"github.com/kstonedb/kstone/engine/internal/follow"
	"github.com/kstonedb/kstone/engine/internal/lease"
	"github.com/kstonedb/kstone/engine/internal/openfs"
	"github.com/kstonedb/kstone/engine/internal/read"
	"github.com/kstonedb/kstone/engine/internal/source"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cache"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/sst"
	"github.com/kstonedb/kstone/stripe"
	"github.com/kstonedb/kstone/wal"
)

// Open opens the database in dir, creating it if there is none. Nil options mean the
// defaults. A directory that holds anything else is refused (ErrNotDatabase) and left
// as it is. After a crash Open replays the log, which takes time bounded by
// Options.LogBytes, not by the size of the database.
func Open(dir string, o *Options) (*DB, error) {
	if o != nil && o.InMemory {
		return openFS(vfs.NewMem(), dir, o, nil)
	}
	return openFS(vfs.OS(), dir, o, nil)
}

func init() {
	openfs.Open = func(fsys vfs.FS, dir string, options any) (any, error) {
		return openOn(fsys, dir, options.(*Options))
	}
	source.Of = func(db any) *source.Source { return db.(*DB).source() }
}

// openOn is Open on a file system of the caller's, for tests.
func openOn(fsys vfs.FS, dir string, o *Options) (*DB, error) {
	var given Options
	if o != nil {
		given = *o
	}
	given.InMemory = false // that is the caller's affair
	return openFS(fsys, dir, &given, nil)
}

// openFS is Open on a file system. If lock is not nil the caller has locked the directory,
// and closing the database closes lock.
//
// Why again with ReadOnly: what another process writes may be read half before and half after a
// write, or be gone. What is damaged or missing is so twice.
func openFS(fsys vfs.FS, dir string, o *Options, lock io.Closer) (*DB, error) {
	before := ""
	for {
		db, err := openOnce(fsys, dir, o, lock)
		if err == nil || o == nil || !o.ReadOnly || err.Error() == before ||
			!errors.Is(err, ErrCorrupt) && !errors.Is(err, fs.ErrNotExist) {
			return db, err
		}
		before = err.Error()
	}
}

func openOnce(fsys vfs.FS, dir string, o *Options, lock io.Closer) (db *DB, err error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if dir == "" { // the working directory is "."
		return nil, invalid("no directory")
	}
	start := time.Now()
	db = &DB{dir: dir, opts: opts, base: fsys, lock: lock}
	db.calls.init()
	db.temp.db = db
	defer func() {
		if err != nil {
			err = errors.Join(err, db.release())
			db = nil
		}
	}()
	made, err := db.openDir()
	if err != nil {
		return db, err
	}
	state, err := db.openManifest(o, made)
	if err != nil {
		return db, err
	}
	store, err := db.takeSettings(o, state)
	if err != nil {
		return db, err
	}
	flushGroup := db.limitFiles()
	if err := db.checkFiles(state); err != nil {
		return db, err
	}
	db.prepare(state, flushGroup)
	if err := db.keepPast(); err != nil {
		return db, err
	}
	tail, replayed, err := db.recover(state)
	if err != nil {
		return db, err
	}
	db.reads.Reset(db.lastSeq)
	if !opts.ReadOnly {
		if err := db.openLog(state, tail, store); err != nil {
			return db, err
		}
	} else {
		if err := db.viewLog(state, tail); err != nil {
			return db, err
		}
	}
	db.opts.Logger.Info("database opened", "dir", dir, "readOnly", opts.ReadOnly,
		"version", db.lastSeq, "replayed", replayed, "torn", tail.TornBytes,
		"dur", time.Since(start))
	return db, nil
}

// release gives back what a failed Open has taken.
func (db *DB) release() error {
	var errs []error
	if db.log != nil {
		errs = append(errs, db.log.Close())
	}
	if db.follow != nil {
		errs = append(errs, db.follow.Close())
	}
	if db.upkeep != nil {
		db.upkeep.Close(true)
	}
	if db.manifest != nil {
		errs = append(errs, db.manifest.Close())
	}
	if db.leases != nil {
		errs = append(errs, db.leases.Close())
	}
	errs = append(errs, db.closeDir())
	return errors.Join(errs...)
}

// openManifest identifies the directory, locks it, and loads or creates the manifest.
func (db *DB) openManifest(o *Options, made bool) (*manifest.State, error) {
	exists, err := manifest.Exists(db.fs, db.dir)
	if err != nil {
		return nil, fmt.Errorf("engine: open: %w", err)
	}
	if !exists && (db.opts.ReadOnly || db.opts.MustExist) {
		return nil, fmt.Errorf("%w: %s", ErrNotExist, db.dir)
	}
	if !exists && !made { // the process that made it may not have synced its name
		if err := manifest.MakeDir(db.base, db.dir); err != nil {
			return nil, fmt.Errorf("engine: open: %w", err)
		}
	}
	if db.opts.ReadOnly {
		if db.follow, err = follow.Open(db.fs, db.dir, db.lock == nil, db.opts.Logger); err != nil {
			return nil, fmt.Errorf("engine: open: %w", err)
		}
		return db.follow.State(), nil
	}
	if err := db.lockDir(); err != nil {
		return nil, err
	}
	if db.leases, err = lease.Open(db.fs, db.dir); err != nil {
		return nil, fmt.Errorf("engine: open: %w", err)
	}
	// Under the lock the answer is final.
	if exists, err = manifest.Exists(db.fs, db.dir); err != nil {
		return nil, fmt.Errorf("engine: open: %w", err)
	}
	if !exists {
		init := newState()
		if _, init.Settings, err = joinSettings(o, nil); err != nil {
			return nil, err
		}
		if db.manifest, err = manifest.Create(db.fs, db.dir, init); err != nil {
			return nil, fmt.Errorf("engine: create: %w", err)
		}
		return db.manifest.State(), nil
	}
	m, state, err := manifest.Open(db.fs, db.dir)
	if err != nil {
		return nil, fmt.Errorf("engine: open: %w", err)
	}
	db.manifest = m
	return state, nil
}

// checkFiles reports SSTs and value files that the manifest names and the directory lacks. Why at
// once: the usual cause is an incomplete copy, and the caller should know before anything is
// written to it. What is in the files is checked when they are read.
func (db *DB) checkFiles(state *manifest.State) error {
	names, err := db.fs.List(db.dir)
	if err != nil {
		return fmt.Errorf("engine: open: %w", err)
	}
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
	}
	var errs []error
	for name := range state.AllFiles() {
		if there[name] {
			continue
		}
		if len(errs) == 10 { // enough to understand
			break
		}
		errs = append(errs, &CorruptionError{
			File: name, Offset: -1, What: "database", Want: "the file", Got: "no such file",
		})
	}
	if len(errs) > 0 {
		return fmt.Errorf("engine: open: %w", errors.Join(errs...))
	}
	return nil
}

func newState() *manifest.State {
	s := &manifest.State{NextFile: 1, NextRun: 1}
	var seed [8]byte
	_, _ = rand.Read(s.DBID[:]) // never fails
	_, _ = rand.Read(seed[:])
	s.HashSeed = binary.LittleEndian.Uint64(seed[:])
	return s
}

// prepare fills in everything that needs no log.
func (db *DB) prepare(state *manifest.State, flushGroup int) {
	o := &db.opts
	images := int(min(o.CacheBytes/64, 4<<20)) // of what is for slots
	db.reads = read.New(read.Env{
		Stripes: &db.stripes, Seed: state.HashSeed, BlockBytes: o.BlockBytes, NowMs: db.nowMs,
		ReadAheadBytes: int(max(1<<20, min(o.CacheBytes/8, 8<<20))),
		SlotBytes:      int(min(o.CacheBytes/16, math.MaxInt32)) - images,
		ImageBytes:     images,
		Follows:        o.ReadOnly, Explain: db.explain,
	})
	db.from = db.reads.Reader(nil, nil)
	db.makeUpkeep(state, flushGroup)
	db.commits = commit.New(commit.Env{
		Stripes: &db.stripes, Reads: db.reads, Upkeep: db.upkeep, FlushRecords: o.FlushRecords,
		NowMs: db.nowMs,
	})
	db.env = stripe.Env{
		FS: db.fs, Dir: db.dir, DBID: state.DBID, Seed: state.HashSeed,
		Cache:      cache.New(o.CacheBytes),
		Files:      cache.NewFiles(db.openFile, o.MaxOpenFiles),
		Stats:      &sst.Stats{},
		BlockBytes: o.BlockBytes, FileBytes: o.FileBytes, FilterBits: max(o.FilterBits, 0),
		RunFiles:   o.MaxOpenFiles / (2 * base.NumStripes), // so that all stay open
		LargeValue: o.LargeValue,
		UpperCodec: codec(o.Compression), BottomCodec: codec(o.BottomCompression),
		Memory:   db.upkeep.MemtableBytes(),
		NextFile: db.upkeep.NextFile,
		Create:   db.upkeep.CreateFile,
		Obsolete: db.upkeep.Obsolete,
		Full:     db.upkeep.Full,
		Due:      db.upkeep.KickMerge,
		Littered: db.upkeep.KickFlush,
	}
	db.fs.MoreFiles = db.env.Files.Evict
	for i := range db.stripes {
		db.stripes[i].Init(base.StripeID(i), &db.env, state.Stripes[i].Runs)
	}
}

func (db *DB) openFile(name string) (cache.File, error) { return db.fs.Open(name) }

func codec(c Compression) sst.Codec {
	switch c {
	case NoCompression:
		return sst.None
	case LZ4:
		return sst.LZ4
	case Zstd:
		return sst.Zstd
	}
	return sst.Snappy
}

func (db *DB) walOptions(state *manifest.State) wal.Options {
	return wal.Options{
		FS: db.fs, Dir: db.dir, DBID: state.DBID, Mapped: true,
		SegmentBytes:   segmentBytes(db.opts.LogBytes),
		MaxRecordBytes: MaxBatchBytes,
		// A sync in the background fails for all at once, not at the next write.
		OnFailure: func(err error) { _ = db.upkeep.Fail(err) },
		MoreSpace: db.upkeep.MoreLogSpace,
		Floor:     db.upkeep.LeasedFrom,
		Retain:    db.opts.RetainBytes > 0,
	}
}

// segmentBytes divides the log's budget into segments: enough of them that the log is
// released in small steps, each large enough to be worth its file.
func segmentBytes(budget int64) int64 {
	return min(max(budget/16, 1<<20), 16<<20)
}

// recover replays the log into the memtables. It changes nothing on disk.
func (db *DB) recover(state *manifest.State) (tail wal.Tail, replayed int, err error) {
	if db.follow != nil {
		return db.recoverBeside(state)
	}
	db.lastSeq = state.LastSeq
	var flushed [base.NumStripes]base.SeqNum
	for i := range flushed {
		flushed[i] = state.Stripes[i].FlushedSeq
	}
	r := commit.NewReplay(commit.ReplayEnv{
		Stripes: &db.stripes, Hash: db.reads.Hash, Memory: db.upkeep.MemtableBytes(),
		Floor: db.reads.ReplayFloor(),
	}, &flushed)
	tail, err = wal.Recover(db.walOptions(state), wal.SegmentNum(state.LogStart),
		max(state.LogSeq, 1), r.Apply)
	r.Finish()
	if err != nil {
		return tail, 0, fmt.Errorf("engine: recover: %w", err)
	}
	if tail.LastSeq < state.LastSeq {
		// Flushes sync the log first, so it reaches at least as far as the files.
		return tail, 0, fmt.Errorf("engine: recover: %w", &CorruptionError{
			File: tail.Segment.FileName(), Offset: tail.Offset, What: "end of log",
			Want: fmt.Sprintf("commit %d", state.LastSeq),
			Got:  fmt.Sprintf("commit %d", tail.LastSeq),
		})
	}
	db.lastSeq, db.logRecords = tail.LastSeq, tail.Records
	return tail, r.Operations(), nil
}

// recoverBeside is recover for a database that another process may write.
func (db *DB) recoverBeside(state *manifest.State) (tail wal.Tail, replayed int, err error) {
	tail, replayed, err = db.follow.Recover(follow.Env{
		FS: db.fs, Dir: db.dir, Wal: db.walOptions(state), Stripes: &db.stripes,
		Reads: db.reads, Memory: db.upkeep.MemtableBytes(), Logger: db.opts.Logger,
		Visible: db.opts.Visible, Switched: db.switched,
	})
	if err != nil {
		return tail, 0, fmt.Errorf("engine: recover: %w", err)
	}
	db.lastSeq, db.logRecords = db.follow.Visible(), tail.Records
	return tail, replayed, nil
}

// Refresh makes a read-only database show all that the process which writes it had committed, and
// made durable, before the call. It does so by itself within 100 ms.
func (db *DB) Refresh() error {
	switch {
	case db.reads.Closed():
		return ErrClosed
	case db.follow == nil:
		return nil
	}
	return during("refresh", db.follow.Refresh())
}

// explain returns what readers get for an error of the layers below.
func (db *DB) explain(err error) error {
	if db.follow != nil {
		return db.follow.Explain(err)
	}
	return err
}

// openLog continues the log after the tail, removes orphans and starts the
// background work.
func (db *DB) openLog(state *manifest.State, tail wal.Tail, settings []byte) error {
	log, err := wal.Open(db.walOptions(state), tail)
	if err != nil {
		return fmt.Errorf("engine: open log: %w", err)
	}
	db.log = log
	if err := db.noteStart(state); err != nil {
		return err
	}
	if err := db.storeSettings(settings); err != nil {
		return err
	}
	if err := db.removeOrphans(state); err != nil {
		return fmt.Errorf("engine: remove orphans: %w", err)
	}
	if err := db.openHistory(log, state.DBID); err != nil {
		return err
	}
	db.reads.Start(log)
	db.commits.Start(log)
	db.upkeep.Start(log)
	return nil
}

// noteStart records in the manifest of a new database that there is a log: from then on its
// absence is noticed.
func (db *DB) noteStart(state *manifest.State) error {
	first := db.log.FirstSegment(db.lastSeq + 1)
	if state.LogStart != 0 || first == 0 {
		return nil // known, or no space for a log yet
	}
	err := db.upkeep.Edit(func(*manifest.State) *manifest.Edit {
		return &manifest.Edit{LogStart: uint64(first), LogSeq: db.lastSeq + 1}
	})
	if errors.Is(err, vfs.ErrNoSpace) {
		return nil
	}
	return err
}

// removeOrphans deletes what a crash has left: files that no edit names.
func (db *DB) removeOrphans(state *manifest.State) error {
	names, err := db.fs.List(db.dir)
	if err != nil {
		return err
	}
	for _, name := range manifest.Orphans(state, db.manifest.Manifest(), names) {
		db.opts.Logger.Info("removing orphan", "file", name)
		if _, num, data := base.ParseDataName(name); data && num < state.NextFile {
			db.upkeep.Orphan(filepath.Join(db.dir, name)) // it was named once, and may be read
			continue
		}
		err := db.fs.Remove(filepath.Join(db.dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
