package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/kstonedb/kstone/engine/internal/salvage"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Loss is something that Repair could not save. Its fields are
//
//	File        string // where it was; the directory's name if unknown
//	Offset      int64  // in the file, -1 for the whole file
//	What        string // what was there: "data block", "range deletes", "file", "commits" …
//	Stripe      int    // the stripe concerned, -1 for any of them
//	First, Last Key    // the keys concerned, both included; a zero Key is no bound
//	Entries     uint64 // versions lost, 0 if not known
//	FirstCommit uint64 // and LastCommit: commits that are missing, of unknown keys; 0: none
//	Err         error  // what was found; it matches ErrCorrupt if it is damage
type Loss = salvage.Loss

// RepairReport says what Repair has done, and what is lost. Its fields are
//
//	Files      int      // SSTs read
//	LogRecords int64    // log records read
//	Entries    uint64   // versions found intact, in files and log
//	Items      uint64   // live items in the new database
//	Lost       []Loss   // everything that is known to be missing, by file and offset
//	Doubts     []string // what could not be decided, in words
type RepairReport = salvage.Report

// Repair makes a new database in dest, which must not exist or be empty, of everything
// that is intact in src, block by block and log record by log record. Nothing in src is
// changed. The new database has an identity of its own, no log, one run in each stripe,
// and the sequence numbers of the old one. It is opened and verified at the end.
// Progress, if not nil, is called now and then with how much of a total, in bytes, is done.
//
// Damage is not an error: it is in the report. An error means that there is no new
// database: src holds none (ErrNotDatabase), is open in another process (ErrLocked), is of
// an unknown version (ErrVersion), or something could not be read or written.
func Repair(ctx context.Context, src, dest string, o *Options,
	progress func(done, total int64)) (RepairReport, error) {
	return repairOn(ctx, vfs.OS(), src, dest, o, progress)
}

// repairOn is Repair on a file system of the caller's, for tests.
func repairOn(ctx context.Context, fsys vfs.FS, src, dest string, o *Options,
	progress func(done, total int64)) (RepairReport, error) {
	_, err := o.withDefaults()
	if err = cmp.Or(usable(ctx), err); err != nil {
		return RepairReport{}, err
	}
	if src == "" || dest == "" {
		return RepairReport{}, invalid("repair: %q to %q: want two directories", src, dest)
	}
	var given Options
	if o != nil {
		given = *o
	}
	if progress == nil {
		progress = func(int64, int64) {}
	}
	rep, err := repair(ctx, fsys, src, dest, &given, progress)
	return rep, during("repair", err)
}

// repair is repairOn with options that are valid.
func repair(ctx context.Context, fsys vfs.FS, src, dest string, o *Options,
	progress func(done, total int64)) (rep RepairReport, err error) {
	in, err := vfs.OpenDir(fsys, src)
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if err := checkOutside(in, fsys, dest); err != nil {
		return rep, err
	}
	unlock, err := lockSource(in, src)
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	r, err := salvage.Survey(in, src)
	defer func() { rep = r.Report }()
	if err != nil {
		return rep, err
	}
	write, err := repairOptions(r, o)
	if err != nil {
		return rep, err
	}
	if err := r.ReadLog(); err != nil {
		return rep, err
	}
	to, err := openDestination(fsys, dest)
	if err != nil {
		return rep, err
	}
	// A third of the work is to write, one to verify and one to count.
	all := r.Bytes()
	write.Progress = func(done int64) { progress(done/3, all) }
	if err = r.Write(ctx, to, to.dir, write); err == nil {
		r.Report.Items, err = prove(ctx, to, *o, func(thirds float64) {
			progress(int64(float64(all)*thirds/3), all)
		})
	}
	if err != nil {
		return rep, to.abandon(err)
	}
	return rep, to.close()
}

// repairOptions takes over the settings and properties of the old database, as far as they
// can be read.
func repairOptions(r *salvage.Repair, given *Options) (salvage.Options, error) {
	stored, err := withoutHistory(r.Settings())
	if err != nil {
		stored = r.Settings()
	}
	o, settings, err := joinSettings(given, stored)
	if errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
		r.Doubt("settings and properties are lost: %v", err)
		o, settings, err = joinSettings(given, nil)
	}
	if err != nil {
		return salvage.Options{}, err
	}
	state := newState()
	state.Settings = settings
	return salvage.Options{
		State: state, BlockBytes: o.BlockBytes, FileBytes: o.FileBytes,
		FilterBits: max(o.FilterBits, 0), Codec: codec(o.BottomCompression),
		NowMs: o.Clock().UnixMilli(),
	}, nil
}

// lockSource keeps writers out of the old database meanwhile, if there is a lock file. Why
// not make one: nothing in src is changed.
func lockSource(in *vfs.Dir, src string) (unlock func() error, err error) {
	path := filepath.Join(src, manifest.LockName)
	if _, err := in.Stat(path); err != nil {
		return func() error { return nil }, nil
	}
	lock, err := in.Lock(path, "", true)
	var locked *vfs.LockedError
	if errors.As(err, &locked) {
		return nil, &LockedError{Dir: src, Owner: locked.Owner}
	}
	if err != nil {
		return nil, err
	}
	return lock.Close, nil
}

// prove opens and verifies what was made, and counts it; progress is called with how many thirds
// of the repair are done. Why read-only and under the lock that is held: no other process can have
// written to what a failed repair removes.
func prove(ctx context.Context, to *destination, o Options, progress func(thirds float64)) (
	items uint64, err error) {
	o.ReadOnly, o.InMemory = true, false
	stays := struct{ vfs.FS }{to.Dir} // without its Close, as the lock
	db, err := openFS(stays, to.dir, &o, io.NopCloser(nil))
	if err != nil {
		return 0, fmt.Errorf("the new database: %w", err)
	}
	verified, err := db.Verify(ctx, func(p VerifyProgress) {
		progress(1 + float64(p.Bytes)/float64(max(p.BytesTotal, 1)))
	})
	for _, serr := range db.Scan(ctx, Scan{Unordered: true}) {
		if serr != nil {
			err = errors.Join(err, serr)
			break
		}
		if items++; items%checkEvery == 0 {
			progress(2 + float64(items)/float64(max(verified.Entries, items)))
		}
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return items, fmt.Errorf("the new database: %w", err)
	}
	return items, nil
}

// InspectFile writes a description of one file of a database, for people: a log
// segment, an SST, a value file, a manifest or CURRENT, by its name. Damage is described
// as far as it can be read and returned as an error that matches ErrCorrupt. It takes
// no lock; of a database that is open elsewhere it may see half of a last record.
func InspectFile(name string, w io.Writer) error {
	err := salvage.Describe(name, w, describeSettings)
	if errors.Is(err, salvage.ErrFileName) {
		return invalid("%s is not the name of a kstone file (want wal-*.log, "+
			"NNN-*.sst, NNN-*.val, MANIFEST-* or CURRENT)", filepath.Base(name))
	}
	return err
}
