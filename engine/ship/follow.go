package ship

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/internal/source"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/wal"
)

// FollowOptions configure a Follower. Nil and zero values are the defaults.
type FollowOptions struct {
	// Interval is how often the destination is asked for more. 0 means a second.
	Interval time.Duration
	// Open are the options of the database, but for its directory.
	Open engine.Options
	// OnError, if not nil, is called without locks held with a *SilentError when there was no
	// success for two intervals, and with what ends the follower.
	OnError func(error)
	Logger  *slog.Logger // gets the same
}

// Follower is a database that is kept up to date with what is shipped to a destination. Its
// methods may be called concurrently.
type Follower struct {
	fs      vfs.FS
	dir     string
	dest    Destination
	o       FollowOptions
	headers headers
	stop    context.CancelCauseFunc
	ended   chan struct{}
	begin   time.Time
	alarm   alarm
	own     bool   // all commits of the database are those of the destination
	of      uint64 // identity of the destination
	slot    uint64 // the last one that was read into the database

	mu      sync.Mutex
	db      *engine.DB // guarded by mu, as all below; written by the goroutine that follows
	m       FollowMetrics
	lastErr error
	fatal   error
	changed chan struct{}
}

// FollowMetrics is a picture of a follower at work.
type FollowMetrics struct {
	Version     uint64    // of the last commit that it has
	Time        time.Time // at which that was the last, as far as is known
	LastSuccess time.Time // when the last attempt began that has found everything there is
	Failures    int
	Rebases     int   // times that it has begun again, since commits were missing
	Err         error // see Follower.Err
}

// Follow restores the last commit of a destination into dir, unless a follower has done so, and
// goes on with what is shipped from then on. If that has a gap, since the follower was away for
// longer than the log is kept, it restores the last commit again, in place of what it has made;
// for that time the disk has both. It does not wait for a first database at the destination: the
// error then matches ErrEmpty, and a later call may succeed.
func Follow(ctx context.Context, d Destination, dir string, o *FollowOptions) (*Follower, error) {
	return followOn(ctx, d, vfs.OS(), dir, o)
}

func followOn(ctx context.Context, d Destination, fsys vfs.FS, dir string, o *FollowOptions,
) (*Follower, error) {
	f := &Follower{fs: fsys, dir: filepath.Clean(dir), dest: &timed{d, defaultTimeout},
		headers: headers{}, ended: make(chan struct{}), begin: now(), changed: make(chan struct{})}
	if o != nil {
		f.o = *o
	}
	f.o.Interval = cmp.Or(f.o.Interval, time.Second)
	f.o.Logger = cmp.Or(f.o.Logger, slog.New(slog.DiscardHandler))
	f.alarm = alarm{"following", f.o.Logger, f.o.OnError}
	if f.o.Interval < 0 {
		return nil, invalid("Interval %v is negative", f.o.Interval)
	}
	if err := settle(fsys, f.dir); err != nil {
		return nil, err
	}
	if _, err := fsys.Stat(f.dir); errors.Is(err, fs.ErrNotExist) {
		_, err := restoreOn(ctx, f.dest, fsys, f.dir, &RestoreOptions{Open: f.o.Open})
		if err != nil {
			return nil, err
		}
		f.own = true
	}
	var err error
	if f.db, err = openFollowed(fsys, f.dir, &f.o); err != nil {
		return nil, err
	}
	err = f.prove(ctx)
	for try := 0; errors.Is(err, errNotExist) && try < maxLooks; try++ { // merged meanwhile
		err = f.prove(ctx)
	}
	if err == nil {
		err = f.moveMark()
	}
	if err != nil {
		return nil, errors.Join(err, f.db.Close())
	}
	var run context.Context
	run, f.stop = context.WithCancelCause(context.Background())
	go f.run(run)
	return f, nil
}

// DB returns the database, for reading: writes fail with engine.ErrReadOnly. Close closes it. So
// does a follower that begins again: reads of it then return engine.ErrClosed, and DB returns the
// new one.
func (f *Follower) DB() *engine.DB {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.db
}

// prove checks that the last commit of the database is one of the destination, as far as that has
// it, and sets own.
func (f *Follower) prove(ctx context.Context) error {
	s, err := look(ctx, f.dest, f.headers)
	if err != nil {
		return err
	}
	f.of = s.id.epoch
	src := source.Of(f.db)
	last := src.Log.LastSeq()
	f.own = f.own || f.marked()
	other := func(why string) error {
		return fmt.Errorf("%w: %s: follow in a new directory", ErrOther, why)
	}
	if s.id.dbid != src.DBID {
		return other("the directory has another database")
	}
	r := src.Log.NewReader(last)
	rec, found, err := r.Next(last)
	if errors.Is(err, wal.ErrGone) { // of a base that was only restored
		err = nil
	}
	if err != nil {
		return errors.Join(err, r.Close())
	}
	defer func() { _ = r.Close() }()
	newest := base.SeqNum(0)
	for i := range s.bases {
		newest = max(newest, s.bases[i].seq)
	}
	for i := range s.chain {
		o := &s.chain[i]
		newest = max(newest, o.seq)
		if !found || last <= o.from || last > o.seq {
			continue
		}
		h, body, err := get(ctx, f.dest, o.name, kindLog)
		if err != nil {
			return err
		}
		same := false
		if err := eachEntry(o.name, &h, body, func(e *entry) error {
			same = same || e.kind == entryCommit && e.seq == last &&
				sameRecord(e.content, rec.Payload)
			return nil
		}); err != nil {
			return err
		}
		if !same {
			return other(fmt.Sprintf("commit %d of the directory is another one", last))
		}
		f.own = true
		return nil
	}
	if newest < last {
		return other(fmt.Sprintf("the directory has commit %d, the destination ends with %d", last,
			newest))
	}
	return nil
}

// sameRecord reports whether two records have the same operations; those that delete ranges come
// first in one that was made again.
func sameRecord(a, b []byte) bool {
	return len(a) == len(b) && (bytes.Equal(a, b) || bytes.Equal(rangesFirst(a), rangesFirst(b)))
}

func (f *Follower) run(ctx context.Context) {
	defer close(f.ended)
	var others sync.WaitGroup
	others.Go(func() { f.alarm.watch(ctx, f.o.Interval, f.state) })
	defer others.Wait()
	t := time.NewTicker(f.o.Interval)
	defer t.Stop()
	for {
		began := now()
		m, err := f.poll(ctx)
		if errors.Is(err, ErrGap) && f.own {
			if err = f.rebase(ctx); err == nil {
				m, err = f.poll(ctx)
			}
		}
		if ctx.Err() != nil {
			return
		}
		f.mu.Lock()
		if f.lastErr = err; err == nil {
			m.Failures, m.Rebases, m.LastSuccess = f.m.Failures, f.m.Rebases, began
			f.m = m
		} else {
			f.m.Failures++
			f.o.Logger.Warn("following is tried again", "err", err)
		}
		f.fatal = f.finalErr(err)
		fatal := f.fatal
		close(f.changed)
		f.changed = make(chan struct{})
		f.mu.Unlock()
		if fatal != nil {
			f.stop(fatal)
			f.alarm.report(fatal)
			return
		}
		select {
		case <-ctx.Done():
		case <-t.C:
		}
	}
}

// finalErr returns an error after which the follower cannot go on, or nil.
func (f *Follower) finalErr(err error) error {
	if errors.Is(err, ErrOther) || errors.Is(err, ErrGap) && !f.own ||
		errors.Is(err, engine.ErrClosed) || errors.Is(err, engine.ErrReadOnly) ||
		errors.Is(err, errNoDatabase) {
		return err
	}
	return nil
}

// poll makes the commits that are new at the destination.
func (f *Follower) poll(ctx context.Context) (m FollowMetrics, err error) {
	s, err := look(ctx, f.dest, f.headers)
	if err != nil {
		return m, err
	}
	if s.id.epoch != f.of { // what it has may follow other commits than those that are here
		return m, fmt.Errorf("%w: it was emptied, and begun again: follow again", ErrOther)
	}
	a := &applier{db: f.db, src: source.Of(f.db), to: base.MaxSeqNum}
	from := a.src.Log.LastSeq()
	for i := range s.chain {
		o := &s.chain[i]
		last := a.src.Log.LastSeq()
		if o.seq < last || o.seq == last && o.lastSlot <= f.slot {
			continue
		}
		if o.from > last {
			return m, fmt.Errorf("%w: the destination has no commit after %d, up to %d: follow in "+
				"a new directory", ErrGap, last, o.from)
		}
		if err := a.object(ctx, f.dest, o.name); err != nil {
			return m, err
		}
		f.slot = o.lastSlot
		f.mu.Lock()
		f.m.Time = time.UnixMilli(o.ms)
		f.mu.Unlock()
	}
	last := a.src.Log.LastSeq()
	if n := len(s.bases); n > 0 && s.bases[n-1].seq > last {
		return m, fmt.Errorf("%w: the destination has no commit after %d: follow in a new "+
			"directory", ErrGap, last)
	}
	f.mu.Lock()
	m = FollowMetrics{Version: uint64(last), Time: f.m.Time}
	f.mu.Unlock()
	if last > from {
		err = errors.Join(f.db.Sync(ctx), f.moveMark())
	}
	return m, err
}

// WaitFor returns when the database has a commit. The error is the cause of ctx, or what has ended
// the follower.
func (f *Follower) WaitFor(ctx context.Context, version uint64) error {
	return waitUntil(ctx, f.ended, f.Err, func() (bool, <-chan struct{}, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.m.Version >= version, f.changed, f.fatal
	})
}

// Ended is closed when the follower has ended.
func (f *Follower) Ended() <-chan struct{} { return f.ended }

// Err returns what has ended the follower, unless that is Close, or a *SilentError if it has had no
// success for two intervals.
func (f *Follower) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fatal != nil {
		return f.fatal
	}
	return overdue(f.begin, f.m.LastSuccess, f.o.Interval, f.lastErr)
}

// Metrics returns the present figures.
func (f *Follower) Metrics() FollowMetrics {
	err := f.Err()
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.m
	m.Err = err
	return m
}

// state returns Err, and whether that has ended the follower.
func (f *Follower) state() (err error, ended bool) {
	err = f.Err()
	f.mu.Lock()
	defer f.mu.Unlock()
	return err, f.fatal != nil
}

// Close ends the follower and closes its database, which may then be opened like any other, or be
// followed again.
func (f *Follower) Close() error {
	f.stop(errClosed)
	<-f.ended
	return f.db.Close()
}
