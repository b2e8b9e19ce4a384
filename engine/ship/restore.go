package ship

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/internal/openfs"
	"github.com/kstonedb/kstone/engine/internal/source"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
)

// # Restore
//
// The naive way: put base and log into the new directory, and have Open replay the log.
//
// Why it fails: Open holds what it replays in memory, and the log since the last base has no
// bound. And a process that is killed halfway leaves what looks like a database.
//
// The way taken: the files of the base are fetched into NEW.restoring, and checked by content.
// CURRENT is written last. The result is opened like any database, and each record of the log
// after it becomes a commit: it gets the seq that it has in the log, since both have no gaps.
// Flushes bound the memory. Then the directory gets its name.
//
// What a crash leaves: NEW.restoring, which no call takes for a database. The next Restore of the
// same base keeps the files that are right, and goes on after the last commit that is durable.
// Otherwise it begins again.

// Target is a moment to restore. The zero value is the last, and an error if damage is before it.
type Target struct {
	// Version restores the state after this commit, Time that at the last known moment up to
	// then: nothing that was written later, and all that was durable before. At most one is set.
	Version uint64
	Time    time.Time
}

// String implements fmt.Stringer.
func (t *Target) String() string {
	if t.Version > 0 {
		return fmt.Sprintf("version %d", t.Version)
	}
	if t.Time.IsZero() {
		return "the last"
	}
	return t.Time.Format(time.RFC3339Nano)
}

// RestoreOptions configure one Restore. Nil and zero values are the defaults.
type RestoreOptions struct {
	To Target
	// Open are the options of the database, but for its directory.
	Open engine.Options
	// Plan, if not nil, is called before anything is written, with what can be restored and what
	// will be; again if a shipper removes that meanwhile.
	Plan func(Contents, Moment)
	// Progress, if not nil, is called now and then, by one goroutine at a time.
	Progress func(RestoreProgress)
}

// RestoreProgress says how far Restore has come: with the bytes to be read from the destination.
type RestoreProgress struct{ Bytes, BytesTotal int64 }

// restoringSuffix is that of the directory that is being restored.
const restoringSuffix = ".restoring"

// planName is a file in it.
const planName = "RESTORE"

// Restore makes a database in dir, which must not exist, of what was shipped to a destination. It
// returns the moment that it has restored. A call that was interrupted is continued by the next for
// the same directory. The error matches ErrMoment, with the restorable moments, if the target is
// not one of them, ErrEmpty, or engine.ErrCorrupt if objects are damaged.
func Restore(ctx context.Context, d Destination, dir string, o *RestoreOptions) (Moment, error) {
	return restoreOn(ctx, d, vfs.OS(), dir, o)
}

func restoreOn(ctx context.Context, d Destination, fsys vfs.FS, dir string, o *RestoreOptions,
) (Moment, error) {
	if o == nil {
		o = &RestoreOptions{}
	}
	if o.To.Version > 0 && !o.To.Time.IsZero() {
		return Moment{}, invalid("restore to a version or to a time, not to both")
	}
	if dir == "" {
		return Moment{}, invalid("restore: no directory")
	}
	if _, err := fsys.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return Moment{}, cmp.Or(err, invalid("restore: %s is there: name a new directory", dir))
	}
	r := &restore{dest: d, fs: fsys, dir: filepath.Clean(dir) + restoringSuffix, o: o}
	to, err := r.restore(ctx)
	for try := 0; try < maxLooks && err != nil && (r.moved(ctx, err) || r.leave(to, err)); try++ {
		to, err = r.restore(ctx)
	}
	if err != nil {
		return Moment{}, cmp.Or(r.damage, err)
	}
	if err := fsys.Remove(filepath.Join(r.dir, planName)); err != nil {
		return Moment{}, err
	}
	if err := fsys.Rename(r.dir, filepath.Clean(dir)); err != nil {
		return Moment{}, err
	}
	return to, fsys.SyncDir(filepath.Dir(filepath.Clean(dir)))
}

// maxLooks bounds how often a destination is looked at again in one call, because an object is
// gone that was there.
const maxLooks = 8

// restore chooses what to restore, and restores it.
func (r *restore) restore(ctx context.Context) (to Moment, err error) {
	r.base, r.whole, r.done = nil, false, RestoreProgress{}
	if to, err = r.prepare(ctx); err != nil {
		return to, err
	}
	if err = r.run(ctx, base.SeqNum(to.Version)); err != nil {
		return to, fmt.Errorf("ship: restore %s: %w", to, err)
	}
	return to, nil
}

// moved reports whether an error may come of a shipper that has merged the objects that were
// found, or removed the base. Why not what else is missing: bases are removed first.
func (r *restore) moved(ctx context.Context, err error) bool {
	if r.base != nil && !errors.Is(err, errNotExist) {
		err = try(ctx, func() error {
			_, err := r.dest.Head(ctx, r.base.name)
			return err
		})
	}
	return errors.Is(err, errNotExist)
}

// leave has the next attempt take another base, if an error is damage of this one: the log that
// leads on from the one before has the same commits, unless there is a gap.
func (r *restore) leave(to Moment, err error) bool {
	if r.base == nil || r.whole || !isDamage(err) {
		return false
	}
	r.bad, r.damage = append(r.bad, r.base.name), cmp.Or(r.damage, err)
	r.least = max(r.least, to.Version)
	return true
}

// prepare chooses what to restore.
func (r *restore) prepare(ctx context.Context) (to Moment, err error) {
	if r.s, err = look(ctx, r.dest, nil); err != nil {
		return to, err
	}
	contents, err := r.s.contents()
	if err != nil {
		return to, err
	}
	if r.damage != nil {
		contents.Damage = append(contents.Damage, r.damage)
	}
	if to, err = r.choose(ctx, &contents); err != nil {
		return to, err
	}
	if to.Version < r.least {
		return to, r.damage
	}
	if r.files, err = getFiles(ctx, r.dest, r.base); err != nil {
		return to, err
	}
	if r.o.Plan != nil {
		r.o.Plan(contents, to)
	}
	return to, nil
}

// restore is a Restore call.
type restore struct {
	s    *survey
	dest Destination
	fs   vfs.FS
	dir  string
	o    *RestoreOptions

	base  *baseObject
	whole bool // all files of base are there
	files []file
	log   []logObject

	bad    []string // bases that are damaged
	damage error    // of the first of them
	least  uint64   // version that they would have given

	mu   sync.Mutex
	done RestoreProgress // guarded by mu
}

// choose picks the base and the log objects, and returns the moment that they make.
func (r *restore) choose(ctx context.Context, c *Contents) (to Moment, err error) {
	t := &r.o.To
	for i := range r.s.bases {
		b := &r.s.bases[i]
		last := r.s.last(b)
		switch {
		case slices.Contains(r.bad, b.name), r.base != nil && last.Version < to.Version,
			t.Version > 0 && (uint64(b.seq) > t.Version || last.Version < t.Version),
			!t.Time.IsZero() && (time.UnixMilli(b.ms).After(t.Time) ||
				last.Time.Before(t.Time.Truncate(time.Millisecond))):
			continue
		}
		r.base = b
		to = last
	}
	if r.base == nil {
		return to, &MomentError{t.String(), c.Ranges}
	}
	r.log = r.s.reach(r.base)
	switch {
	case *t == (Target{}) && to.Version < r.s.newest():
		// Why not what is before the damage: less than was asked for would pass for all.
		last := &MomentError{fmt.Sprintf("the last, version %d,", r.s.newest()), c.Ranges}
		return to, errors.Join(append([]error{last}, c.Damage...)...)
	case t.Version > 0:
		to.Version = t.Version
		for i := range r.log {
			if uint64(r.log[i].seq) >= t.Version {
				to.Time, r.log = time.UnixMilli(r.log[i].ms), r.log[:i+1]
				break
			}
		}
	case !t.Time.IsZero():
		to, err = r.momentAt(ctx, t.Time.UnixMilli())
	}
	return to, err
}

// momentAt returns the last moment up to a time, and leaves the log objects up to it.
func (r *restore) momentAt(ctx context.Context, ms int64) (Moment, error) {
	best := moment(&r.base.header)
	// The last object whose last moment is not later may be one without a moment.
	for i := len(r.log) - 1; i >= 0; i-- {
		o := &r.log[i]
		if o.ms > ms && i > 0 && r.log[i-1].ms > ms {
			continue // even that before ends later
		}
		h, body, err := get(ctx, r.dest, o.name, kindLog)
		if err != nil {
			return best, err
		}
		found := false
		err = eachEntry(o.name, &h, body, func(e *entry) error {
			if at := int64(e.word); e.kind == entryMoment && at <= ms && e.seq >= r.base.seq {
				best = Moment{Version: uint64(e.seq), Time: time.UnixMilli(at)}
				found = true
			}
			return nil
		})
		if err != nil {
			return best, err
		}
		if found {
			r.log = r.log[:i+1]
			return best, nil
		}
	}
	r.log = nil
	return best, nil
}

func (r *restore) run(ctx context.Context, to base.SeqNum) error {
	for i := range r.files {
		r.done.BytesTotal += r.files[i].size
	}
	for i := range r.log {
		r.done.BytesTotal += r.log[i].bodyBytes
	}
	begun, err := r.resume(to)
	if err != nil {
		return err
	}
	if !begun {
		if err := r.fetch(ctx); err != nil {
			return err
		}
	}
	r.whole = true
	return r.replay(ctx, to)
}

// plan is what the directory is made of.
type plan struct {
	Destination string      `json:"destination"`
	Base        string      `json:"base"`
	To          base.SeqNum `json:"to"` // no commit above is there
}

// resume makes the directory ready. Begun means that the base is there as a whole.
func (r *restore) resume(to base.SeqNum) (begun bool, err error) {
	want := plan{fmt.Sprintf("%016x", r.s.id.epoch), r.base.name, to}
	text, _ := json.Marshal(want)
	name := filepath.Join(r.dir, planName)
	var have plan
	old, err := readFile(r.fs, name)
	if err == nil && json.Unmarshal(old, &have) == nil && have.Base == want.Base &&
		have.Destination == want.Destination && have.To <= to {
		_, err = r.fs.Stat(filepath.Join(r.dir, manifest.CurrentName))
		if begun = err == nil; !begun && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		return begun, writeFile(r.fs, name, text)
	}
	if err := removeAll(r.fs, r.dir); err != nil {
		return false, err
	}
	if err := manifest.MakeDir(r.fs, r.dir); err != nil {
		return false, err
	}
	return false, writeFile(r.fs, name, text)
}

// fetchers is how many files are fetched at a time.
const fetchers = 4

// fetch brings the files of the base, CURRENT last.
func (r *restore) fetch(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var work sync.WaitGroup
	for range fetchers {
		work.Go(func() {
			var out written
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(r.files) {
					break
				}
				f := &r.files[i]
				if f.name == manifest.CurrentName {
					continue
				}
				if err := r.fetchFile(ctx, f, &out); err != nil {
					cancel(err)
				}
			}
			if err := out.sync(); err != nil {
				cancel(err)
			}
		})
	}
	work.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := r.fs.SyncDir(r.dir); err != nil {
		return err
	}
	for i := range r.files {
		if r.files[i].name == manifest.CurrentName {
			var out written
			if err := r.fetchFile(ctx, &r.files[i], &out); err != nil {
				return errors.Join(err, out.sync())
			}
			return cmp.Or(out.sync(), r.fs.SyncDir(r.dir))
		}
	}
	return corrupt.New(r.base.name, headerBytes, "file of a base", manifest.CurrentName, "none")
}

// fetchFile brings one file, unless it is there and right. It is durable when out is synced.
func (r *restore) fetchFile(ctx context.Context, f *file, out *written) error {
	path := filepath.Join(r.dir, f.name)
	switch {
	case f.content != nil:
		if got := sha256.Sum256(f.content); got != f.sum {
			return wrongSum(r.base.name+": "+f.name, f, got)
		}
		if err := writeFile(r.fs, path, f.content); err != nil {
			return err
		}
	case r.right(path, f): // the call that wrote it may have ended before it was synced
		again, err := r.fs.OpenReadWrite(path)
		if err != nil {
			return err
		}
		if err := out.add(again, f.size); err != nil {
			return err
		}
	default:
		if err := fetchObject(ctx, r.dest, r.fs, path, f, out); err != nil {
			return err
		}
	}
	r.advance(f.size)
	return nil
}

func (r *restore) advance(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done.Bytes += n
	if r.o.Progress != nil {
		r.o.Progress(r.done)
	}
}

// right reports whether a file is there with the right content.
func (r *restore) right(path string, f *file) bool {
	if st, err := r.fs.Stat(path); err != nil || st.SizeBytes != f.size {
		return false
	}
	got, err := sumOf(r.fs, path)
	return err == nil && got == f.sum
}

// fetchObject writes the content of an SST object to a file.
func fetchObject(ctx context.Context, d Destination, fsys vfs.FS, path string, f *file,
	to *written) (err error) {
	name := f.object()
	in, err := d.Get(ctx, name, 0, -1)
	if err != nil {
		return lostObject(name, err)
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := fsys.Create(path)
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.CopyBuffer(io.MultiWriter(struct{ io.Writer }{out}, sum),
		struct{ io.Reader }{io.LimitReader(in, f.size+1)}, to.buffer())
	if err != nil {
		return errors.Join(lostObject(name, err), out.Close())
	}
	if got := [32]byte(sum.Sum(nil)); got != f.sum {
		return errors.Join(cmp.Or(checkRead(ctx, d, name, n), wrongSum(name, f, got)), out.Close())
	}
	return to.add(out, n)
}

// lostObject makes an error of a missing object that a base or the chain names damage.
func lostObject(name string, err error) error {
	if errors.Is(err, errNotExist) {
		return corrupt.New(name, -1, "object of a destination", "that it is there", err)
	}
	return fmt.Errorf("get %s: %w", name, err)
}

func wrongSum(name string, f *file, got [32]byte) error {
	return corrupt.New(name, -1, "content of an object", fmt.Sprintf("SHA-256 %x", f.sum),
		fmt.Sprintf("%x", got))
}

// replay opens the database and makes the commits after the base, up to one.
func (r *restore) replay(ctx context.Context, to base.SeqNum) error {
	o := r.o.Open
	o.MustExist, o.ReadOnly, o.InMemory = true, false, false
	opened, err := openfs.Open(r.fs, r.dir, &o)
	if err != nil {
		return err
	}
	db := opened.(*engine.DB)
	a := &applier{db: db, src: source.Of(db), to: to}
	if last := a.src.Log.LastSeq(); last < r.base.seq {
		err = corrupt.New(r.base.name, -1, "base", fmt.Sprintf("commit %d", r.base.seq), last)
	} else {
		err = r.apply(ctx, a)
	}
	if last := a.src.Log.LastSeq(); err == nil && last != to {
		err = corrupt.New("log", -1, "log objects", fmt.Sprintf("commit %d", to), last)
	}
	if err == nil {
		err = db.Sync(ctx)
	}
	return errors.Join(err, db.Close())
}

func (r *restore) apply(ctx context.Context, a *applier) error {
	looks := 0
	for i := 0; i < len(r.log); i++ {
		o := &r.log[i]
		if o.seq < a.src.Log.LastSeq() || o.from > a.to {
			continue
		}
		err := a.object(ctx, r.dest, o.name)
		if errors.Is(err, errNotExist) && looks < maxLooks { // merged meanwhile
			looks++
			s, err := look(ctx, r.dest, nil)
			if err != nil {
				return err
			}
			r.log, i = s.reach(r.base), -1
			continue
		}
		if err != nil {
			return lostObject(o.name, err)
		}
		r.advance(o.bodyBytes)
	}
	return nil
}

// applier makes commits of log objects.
type applier struct {
	db  *engine.DB
	src *source.Source
	to  base.SeqNum
}

func (a *applier) object(ctx context.Context, d Destination, name string) error {
	h, body, err := get(ctx, d, name, kindLog)
	if err != nil {
		return err
	}
	return eachEntry(name, &h, body, func(e *entry) error {
		last := a.src.Log.LastSeq()
		switch {
		case e.seq > a.to:
		case e.kind == entryProperties && e.seq >= last:
			return a.properties(name, e.content)
		case e.kind == entryCommit && e.seq > last+1:
			return corrupt.New(name, -1, "log object", fmt.Sprintf("commit %d", last+1), e.seq)
		case e.kind == entryCommit && e.seq > last:
			got, err := a.src.Commit(ctx, e.content)
			if err == nil && got != e.seq {
				err = fmt.Errorf("%w: commit %d of the destination became commit %d: the "+
					"directory has commits of its own", ErrOther, e.seq, got)
			}
			return err
		}
		return nil
	})
}

// properties makes the properties of the database those given.
func (a *applier) properties(name string, b []byte) error {
	want, err := decodeProperties(name, b)
	if err != nil {
		return err
	}
	have, err := a.src.Properties()
	if err != nil {
		return err
	}
	for name := range have {
		if _, stays := want[name]; !stays {
			if err := a.db.SetProperty(name, nil); err != nil {
				return err
			}
		}
	}
	for name, value := range want {
		if string(have[name]) != string(value) || have[name] == nil {
			if err := a.db.SetProperty(name, value); err != nil {
				return err
			}
		}
	}
	return nil
}
