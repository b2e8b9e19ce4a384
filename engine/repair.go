package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/keycodec"
)

// Loss is something that Repair could not save.
type Loss struct {
	// File is where it was; the directory's name if nobody knows.
	File string
	// Offset in the file, -1 for the whole file.
	Offset int64
	// What was there: "data block", "range deletes", "file", "commits", "manifest" …
	What string
	// Stripe is the stripe concerned, -1 for any of them.
	Stripe int
	// First and Last bound the keys concerned, both included; a zero Key is no bound. With
	// range deletes lost, deleted items of the stripe may be back.
	First, Last Key
	// Entries is the number of versions lost, 0 if not known. Older versions of the same
	// keys, if some are stored elsewhere, show again.
	Entries uint64
	// FirstCommit and LastCommit number the commits that are missing, of which nobody
	// knows the keys; 0 for other losses.
	FirstCommit, LastCommit uint64
	// Err says what was found, and matches ErrCorrupt if it is damage.
	Err error
}

// String describes the loss in one line.
func (l Loss) String() string {
	var b strings.Builder
	b.WriteString(l.File)
	if l.Offset >= 0 {
		fmt.Fprintf(&b, " at %d", l.Offset)
	}
	fmt.Fprintf(&b, ": %s lost", l.What)
	if l.Stripe >= 0 {
		fmt.Fprintf(&b, ", stripe %d", l.Stripe)
	}
	if l.FirstCommit != 0 {
		fmt.Fprintf(&b, ", commits %d to %d", l.FirstCommit, l.LastCommit)
	}
	if l.First.PK != nil || l.Last.PK != nil {
		fmt.Fprintf(&b, ", keys %s to %s", boundText(l.First), boundText(l.Last))
	}
	if l.Entries > 0 {
		fmt.Fprintf(&b, ", %d of them", l.Entries)
	}
	return b.String()
}

func boundText(k Key) string {
	if k.PK == nil {
		return "any"
	}
	return formatKey(k)
}

// RepairReport says what Repair has done.
type RepairReport struct {
	Files      int    // SSTs read
	LogRecords int64  // log records read
	Entries    uint64 // versions found intact, in files and log
	Items      uint64 // live items in the new database
	// Lost is everything that is known to be missing, by file and offset. Empty means
	// that the new database holds what the old one held.
	Lost []Loss
	// Doubts says, in words, what could not be decided: for example that without a manifest
	// a file that merges had replaced looks like any other, so that deleted items may be
	// back.
	Doubts []string
}

// Repair makes a new database in dest, which must not exist or be empty, of everything
// that is intact in src, block by block and log record by log record. Nothing in src is
// changed. The new database has an identity of its own, no log, one run in each stripe,
// and the sequence numbers of the old one. It is opened and verified at the end.
//
// Damage is not an error: it is in the report. An error means that there is no new
// database: src holds none (ErrNotDatabase), is open in another process (ErrLocked), is of
// an unknown version (ErrVersion), or something could not be read or written.
func Repair(ctx context.Context, src, dest string, o *Options) (RepairReport, error) {
	return RepairFS(ctx, vfs.OS(), src, dest, o)
}

// RepairFS is Repair on a file system of the caller's, for kstone's own tests and tools.
func RepairFS(ctx context.Context, fsys vfs.FS, src, dest string, o *Options,
) (RepairReport, error) {
	opts, err := o.withDefaults()
	if err = cmp.Or(usable(ctx), err); err != nil {
		return RepairReport{}, err
	}
	if src == "" || dest == "" {
		return RepairReport{}, invalid("repair: %q to %q: want two directories", src, dest)
	}
	r := &repair{base: fsys, src: src, opts: opts}
	if o != nil {
		r.given = *o
	}
	return r.rep, during("repair", r.run(ctx, dest))
}

// repair is the state of one Repair call.
type repair struct {
	base     vfs.FS
	src      string
	in       *vfs.Dir // src
	to       *destination
	given    Options
	opts     Options // given, and the settings of src if they can be read
	settings []byte  // to be stored in dest
	rep      RepairReport

	names  []string // in src
	state  *manifest.State
	whole  bool // the manifest is intact
	dbid   [16]byte
	files  []salvageFile         // to be read
	newer  []salvageFile         // than an intact manifest; to be read if the log is not whole
	poorer [base.NumStripes]bool // stripes of which something is lost
	// Operations of the log, by stripe: those that no file has, and those that files should
	// have, which help if files are damaged.
	log, flushed [base.NumStripes]logOps
	logWhole     bool
	lastSeq      base.SeqNum
	firstLogged  base.SeqNum // of the records in the log, 0 if there is none
	lastFiled    base.SeqNum // the highest in the files

	out *manifest.State // of the new database
}

func (r *repair) run(ctx context.Context, dest string) (err error) {
	if r.in, err = vfs.OpenDir(r.base, r.src); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.in.Close()) }()
	if err := checkOutside(r.in, r.base, dest); err != nil {
		return err
	}
	unlock, err := r.lockSource()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := r.survey(); err != nil {
		return err
	}
	if err := r.takeSettings(); err != nil {
		return err
	}
	if err := r.readLog(); err != nil {
		return err
	}
	if err := r.addNewer(); err != nil {
		return err
	}
	if r.to, err = openDestination(r.base, dest); err != nil {
		return err
	}
	err = r.write(ctx)
	r.doubtBeginning()
	if err == nil {
		err = manifest.WriteSnapshot(r.to, r.to.dir, r.out)
	}
	if err == nil {
		err = r.prove(ctx)
	}
	if err != nil {
		return r.to.abandon(err)
	}
	return r.to.close()
}

// takeSettings takes over the settings and properties of src, as far as they can be read.
func (r *repair) takeSettings() (err error) {
	var stored []byte
	if r.state != nil {
		stored = r.state.Settings
	}
	r.opts, r.settings, err = joinSettings(&r.given, stored)
	if errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
		r.doubt("settings and properties are lost: %v", err)
		r.opts, r.settings, err = joinSettings(&r.given, nil)
	}
	return err
}

// lockSource keeps writers out of src meanwhile, if there is a lock file. Why not make
// one: nothing in src is changed.
func (r *repair) lockSource() (unlock func() error, err error) {
	path := filepath.Join(r.src, manifest.LockName)
	if _, err := r.in.Stat(path); err != nil {
		return func() error { return nil }, nil
	}
	lock, err := r.in.Lock(path, "", true)
	var locked *vfs.LockedError
	if errors.As(err, &locked) {
		return nil, &LockedError{Dir: r.src, Owner: locked.Owner}
	}
	if err != nil {
		return nil, err
	}
	return lock.Close, nil
}

// prove opens and verifies what was made, and counts it. Why read-only and under the lock
// that is held: nobody can have written to what a failed repair removes.
func (r *repair) prove(ctx context.Context) error {
	o := r.given
	o.ReadOnly, o.InMemory = true, false
	stays := struct{ vfs.FS }{r.to.Dir} // without its Close, as the lock
	db, err := openFS(stays, r.to.dir, &o, io.NopCloser(nil))
	if err != nil {
		return fmt.Errorf("the new database: %w", err)
	}
	_, err = db.Verify(ctx, nil)
	for _, serr := range db.Scan(ctx, Scan{Unordered: true}) {
		if serr != nil {
			err = errors.Join(err, serr)
			break
		}
		r.rep.Items++
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("the new database: %w", err)
	}
	return nil
}

func (r *repair) lose(l Loss) { r.rep.Lost = append(r.rep.Lost, l) }

func (r *repair) doubt(format string, args ...any) {
	r.rep.Doubts = append(r.rep.Doubts, fmt.Sprintf(format, args...))
}

// orderedBound turns an ordered key of a damaged file into one to report.
func orderedBound(k []byte) Key {
	if k == nil {
		return Key{}
	}
	key, _, err := keycodec.DecodeOrdered(k, nil)
	if err != nil {
		return Key{}
	}
	return Key{PK: key.PK, SK: key.SK}
}
