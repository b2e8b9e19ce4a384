package suite_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/internal/openfs"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// stage is what a process does: it opens the database, does the operations, and closes.
type stage struct {
	On      string // a file system that loses what is not synced; "disk"; "memory"
	Padding int    // of the property, so that the manifest is soon written again
	opts    engine.Options
	ops     []op
}

// trial is what all stages of a program have in common.
type trial struct {
	t     testing.TB // has directories
	tally *tally     // nil counts nothing

	// Bugs planted to see whether they are found: a file system that breaks a promise
	// after so many crashes, and operations that the model forgets.
	plant  func(level int, fsys vfs.FS) vfs.FS
	forget func(*op) bool
}

// failure is what went wrong, and how it came about: the stages with the crashes that ended
// all but the last of them.
type failure struct {
	text string
	path []link
}

// link is a stage, and the crash in it after which the next stage begins.
type link struct {
	stage
	at    *point // nil in the last one
	begun int    // operations at the time of the crash; all of them in the last one
}

// run is a stage that runs, and the crashes taken meanwhile. Its level is the number of crashes
// before it.
type run struct {
	trial
	stage
	where  string // how it came to this stage, for messages
	before []link
	after  []link // of a repetition: what the crashes are judged with
	fs     vfs.FS // nil in memory
	root   string // the directory of the database and of its copies
	db     *engine.DB
	clock  *atomic.Int64
	snaps  []snapshot
	lives  int // crashes within the run
	// unfiltered says that some files may have no filters.
	unfiltered bool

	mu      sync.Mutex
	wrong   string     // Guarded by mu, like all below: the first thing that went wrong
	rnd     *rand.Rand // for crashes only
	policy             // see there
	changes int
	seen    map[string]int // operations on the disk, see point.At
	renamed map[string]int // files by the first letters of their new name
	steps   int            // begun
	beside  bool           // an operation beside others is being done
	now     crash          // promises of the moment, without a disk
	done    int            // commits that have returned
	taken   int
	crashes []crash // of those taken, the ones that are not judged yet
}

type snapshot struct {
	*engine.Snapshot
	items items
}

// newRun returns a run on an empty disk.
func newRun(c trial, where string, s stage, seed uint64) *run {
	r := &run{
		trial: c, where: where, stage: s, fs: vfstest.NewCrash(), clock: new(atomic.Int64),
		rnd: rand.New(rand.NewPCG(seed, 1)), now: crash{states: states{{}}},
	}
	r.clock.Store(1_000_000)
	switch s.On {
	case "disk":
		r.fs, r.root = vfs.OS(), c.t.TempDir()
	case "memory":
		r.fs = nil
	}
	return r
}

// run does the stage and judges its crashes. It ends with the first thing that is wrong.
func (r *run) run() *failure {
	defer r.abandon()
	r.check("open", r.open())
	if f := r.play(); f != nil {
		return f
	}
	r.check("close", r.close())
	return r.judge()
}

// check notes that something is wrong, unless something was before.
func (r *run) check(what string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && r.wrong == "" {
		r.wrong = fmt.Sprintf("%s: %s: %v", r.where, what, err)
	}
}

// failure returns what went wrong in the run itself, or nil.
func (r *run) failure() *failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wrong == "" {
		return nil
	}
	last := link{stage: r.stage, begun: len(r.ops)}
	return &failure{r.wrong, append(slices.Clip(r.before), last)}
}

// options returns those of the stage with the clock of the run.
func (r *run) options() *engine.Options {
	o := r.opts
	o.Clock = func() time.Time { return time.UnixMilli(r.clock.Load()) }
	o.InMemory = r.fs == nil
	return &o
}

// open opens the database on the file system of the run.
func (r *run) open() error {
	r.unfiltered = r.unfiltered || r.opts.FilterBits == engine.NoFilter
	var err error
	if r.fs == nil {
		if r.db, err = engine.Open("db", r.options()); err == nil {
			r.db.Describe(describe)
		}
		return err
	}
	fsys := r.fs
	if r.plant != nil {
		fsys = r.plant(len(r.before), fsys)
	}
	if r.On == "" {
		fsys = vfstest.NewFault(fsys, r.hook)
	}
	db, err := openOn(fsys, filepath.Join(r.root, "db"), r.options())
	r.db = db
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.exists = r.now.exists || err == nil
	return err
}

func openOn(fsys vfs.FS, dir string, o *engine.Options) (*engine.DB, error) {
	opened, err := openfs.Open(fsys, dir, o)
	if err != nil {
		return nil, err
	}
	db := opened.(*engine.DB)
	db.Describe(describe)
	return db, nil
}

// abandon closes the database of a run that has failed.
func (r *run) abandon() {
	if r.db != nil {
		r.closeSnapshots()
		_ = r.db.Close() // what is wrong is known
		r.db = nil
	}
}

func (r *run) closeSnapshots() (err error) {
	for _, s := range r.snaps {
		err = errors.Join(err, s.Close())
	}
	r.snaps = nil
	return err
}

// close closes the database, which makes everything durable, and cuts the power.
func (r *run) close() error {
	if r.db == nil || r.failure() != nil {
		return nil
	}
	err := r.closeSnapshots()
	err = errors.Join(err, r.db.Close())
	r.db = nil
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.now.acked = len(r.now.states) - 1
		r.afterCloseLocked()
	}
	return err
}

// maxWaiting is the number of operations beside others that may wait for an earlier one before
// the program waits, too. So there is nearly always one under way.
const maxWaiting = 4

// play does the operations. If all of them come one after the other, the crashes are judged
// after each: their disks may be large.
func (r *run) play() *failure {
	concurrent := slices.ContainsFunc(r.ops, func(o op) bool { return o.Beside })
	beside, stopped := make(chan int, maxWaiting), make(chan struct{})
	var busy sync.WaitGroup
	go func() {
		defer close(stopped)
		for i := range beside {
			r.setBeside(true)
			r.step(i)
			r.setBeside(false)
			busy.Done()
		}
	}()
	defer func() {
		close(beside)
		<-stopped
	}()
	for i := range r.ops {
		if f := r.failure(); f != nil {
			return f
		}
		r.mu.Lock()
		r.steps = i + 1
		r.mu.Unlock()
		if r.ops[i].Beside {
			busy.Add(1)
			beside <- i
			continue
		}
		switch r.ops[i].Kind {
		case "reopen", "read-only", "crash", "property", "compact", "metrics", "clock":
			busy.Wait()
		}
		r.step(i)
		if !concurrent {
			if f := r.judge(); f != nil {
				return f
			}
		}
	}
	busy.Wait()
	if r.failure() == nil {
		r.beforeClose()
	}
	return r.failure()
}

func (r *run) setBeside(b bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beside = b
}

// step does one operation.
func (r *run) step(i int) {
	o := &r.ops[i]
	defer func() {
		if p := recover(); p != nil {
			r.check(fmt.Sprintf("operation %d, %.300s", i, o), fmt.Errorf("panic: %v\n%s", p,
				debug.Stack()))
		}
	}()
	if r.failure() == nil {
		if err := r.do(o); err != nil {
			r.check(fmt.Sprintf("operation %d, %.300s", i, o), err)
		}
		r.tally.add(o.Kind, 1)
	}
}

func (r *run) do(o *op) error {
	switch o.Kind {
	case "put", "delete", "delete-range", "delete-scan", "batch", "update", "insert-new":
		return r.commit(o)
	case "view":
		return r.view(o)
	case "new":
		return r.filterNew(o)
	case "snapshot", "drop":
		return r.snapshots(o)
	case "flush":
		return r.durable(func() error { return r.db.Flush(ctx) })
	case "sync":
		return r.durable(func() error { return r.db.Sync(ctx) })
	case "compact":
		return r.compact(o)
	case "property":
		return r.property(o)
	case "checkpoint":
		return r.checkpoint(o)
	case "verify":
		_, err := r.db.Verify(ctx, nil)
		return err
	case "reopen":
		return r.reopen(o)
	case "read-only":
		return r.readOnly(o)
	case "crash":
		return r.crash(o)
	case "clock":
		r.clock.Add(int64(o.TTL))
		return nil
	case "metrics":
		return r.metrics()
	}
	from, m := r.reader(o)
	return r.compare(o, from, m, r.clock.Load(), false)
}

// latest returns the state after all commits so far. Only the writer calls it.
func (r *run) latest() items {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now.states[len(r.now.states)-1]
}

// reader returns what an operation reads from, and the state that it should see.
func (r *run) reader(o *op) (engine.Reader, items) {
	if o.Snapshot > 0 && len(r.snaps) > 0 {
		s := r.snaps[o.Snapshot%len(r.snaps)]
		return s.Snapshot, s.items
	}
	return r.db, r.latest()
}

func (r *run) snapshots(o *op) error {
	if n := len(r.snaps); o.Kind == "drop" && n > 0 {
		i := o.Snapshot % n
		err := r.snaps[i].Close()
		r.snaps = slices.Delete(r.snaps, i, i+1)
		return err
	}
	if o.Kind == "drop" || len(r.snaps) == 4 {
		return nil
	}
	s, err := r.db.Snapshot()
	if err == nil {
		r.snaps = append(r.snaps, snapshot{s, r.latest()})
	}
	return err
}

// durable runs what makes all commits durable that have returned.
func (r *run) durable(f func() error) error {
	r.mu.Lock()
	done := r.done
	r.mu.Unlock()
	if err := f(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.acked = max(r.now.acked, done)
	return nil
}

func (r *run) compact(o *op) error {
	if o.Partial {
		return r.db.CompactPartition(ctx, part(o.Key))
	}
	err := r.durable(func() error { return r.db.Compact(ctx) })
	if err != nil || o.Beside || len(r.snaps) > 0 {
		return err
	}
	m, want := r.db.Metrics().Total, len(r.latest().sorted(r.clock.Load(), nil))
	if int(m.Records) != want || m.Tombstones != 0 {
		return fmt.Errorf("%d records, %d tombstones; want %d and 0", m.Records, m.Tombstones, want)
	}
	return nil
}

func (r *run) metrics() error {
	m := r.db.Metrics()
	if want := len(r.latest().sorted(r.clock.Load(), nil)); int(m.Total.Records) < want {
		return fmt.Errorf("metrics count %d records, %d items are there", m.Total.Records, want)
	}
	if m.OpenSnapshots != len(r.snaps) {
		return fmt.Errorf("metrics count %d snapshots, %d are open", m.OpenSnapshots, len(r.snaps))
	}
	return nil
}

// propertyOf returns the property after n changes; nil takes it away.
func propertyOf(n, bytes int) []byte {
	if n%4 == 0 {
		return nil
	}
	return fmt.Appendf(nil, "%d%*s", n, bytes, "")
}

func (r *run) property(o *op) error {
	r.mu.Lock()
	r.now.propMax++
	n := r.now.propMax
	r.mu.Unlock()
	if err := r.db.SetProperty("n", propertyOf(n, o.Bytes+r.Padding)); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.propMin = n
	return nil
}

// all compares everything, properties too.
func (r *run) all(db *engine.DB, reverse bool) error {
	r.mu.Lock()
	lo, hi := r.now.propMin, r.now.propMax
	r.mu.Unlock()
	_, err := findProperty(db, lo, hi)
	o := op{Kind: "scan", Reverse: reverse}
	return errors.Join(err, o.compare(db, r.latest(), r.clock.Load(), false))
}

// maxCopies are the checkpoints in a run that stay.
const maxCopies = 3

// checkpoint makes a checkpoint. A temporary one is looked at, written to, and removed; others
// are looked at after crashes.
func (r *run) checkpoint(o *op) error {
	if r.fs == nil {
		return nil
	}
	if o.Temporary {
		return r.temporaryCopy(o)
	}
	r.mu.Lock()
	i := len(r.now.copies)
	if i == maxCopies {
		r.mu.Unlock()
		return nil
	}
	name := fmt.Sprintf("copies of run %d/%d", len(r.before), i)
	c := copied{dir: filepath.Join(r.root, name), lo: r.done}
	r.now.copies = append(r.now.copies, c)
	r.mu.Unlock()
	if err := r.db.Checkpoint(ctx, c.dir, nil); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.acked = max(r.now.acked, c.lo) // a checkpoint flushes
	r.now.copies[i].done, r.now.copies[i].hi = true, len(r.now.states)-1
	return nil
}

func (r *run) temporaryCopy(o *op) error {
	dir := filepath.Join(r.root, fmt.Sprintf("copy-%d", r.lives*1000+len(r.now.states)))
	if err := r.durable(func() error { return r.db.Checkpoint(ctx, dir, nil) }); err != nil {
		return err
	}
	opts := r.options()
	opts.ReadOnly = o.Reverse
	db, err := openOn(r.fs, dir, opts)
	if err != nil {
		return err
	}
	err = r.all(db, false)
	if !o.Reverse { // what is written to the copy is not in the original
		err = errors.Join(err, db.Put(engine.K("only", "in the copy"), nil), db.Compact(ctx))
	}
	err = errors.Join(err, db.Close(), r.remove(dir))
	return errors.Join(err, r.all(r.db, false))
}

// remove removes a directory.
func (r *run) remove(dir string) error {
	names, err := r.fs.List(dir)
	for _, name := range names {
		err = errors.Join(err, r.fs.Remove(filepath.Join(dir, name)))
	}
	if r.On == "disk" {
		err = errors.Join(err, r.fs.Remove(dir))
	}
	return err
}

func (r *run) reopen(o *op) error {
	if err := r.close(); err != nil || r.failure() != nil {
		return err
	}
	if o.Options != nil {
		r.opts = *o.Options
	}
	if err := r.open(); err != nil {
		return err
	}
	if r.fs == nil {
		r.now.states, r.now.acked, r.done = states{{}}, 0, 0
		r.now.propMin, r.now.propMax = 0, 0
	}
	return errors.Join(r.all(r.db, o.Reverse), r.changesAre(r.db))
}

func (r *run) readOnly(o *op) error {
	if r.fs == nil {
		return nil
	}
	if err := r.close(); err != nil || r.failure() != nil {
		return err
	}
	opts := r.options()
	opts.ReadOnly = true
	db, err := openOn(r.fs, filepath.Join(r.root, "db"), opts)
	if err != nil {
		return err
	}
	err = errors.Join(r.all(db, o.Reverse), r.changesAre(db))
	if e := db.Put(engine.K("a"), nil); !errors.Is(e, engine.ErrReadOnly) {
		err = errors.Join(err, fmt.Errorf("put on a read-only database: %w", e))
	}
	return errors.Join(err, db.Close(), r.open())
}

// crash goes on with what a kill or a power cut has left.
func (r *run) crash(o *op) error {
	if r.On != "" {
		return nil
	}
	r.mu.Lock()
	c := r.crashLocked(point{Kill: o.Kill, Keep: o.Keep, Seed: o.Seed}, "")
	r.mu.Unlock()
	if err := errors.Join(r.closeSnapshots(), r.db.Close()); err != nil {
		return err // on the old disk, which is of no interest any more
	}
	r.db = nil
	r.fs, r.lives = c.restart(), r.lives+1
	if err := r.open(); err != nil {
		return err
	}
	return errors.Join(r.adopt(&c), r.changesAre(r.db))
}
