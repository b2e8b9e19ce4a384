package suite_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// crash is a machine after a power cut, or after the process was killed, and what was promised
// when it happened.
type crash struct {
	run     *run // in which it was taken
	where   string
	point   point
	steps   int // begun
	fs      *vfstest.CrashFS
	disk    *vfs.MemFS // instead of fs, while it waits: it takes less memory
	clock   int64
	states  states // after the commits begun; no more than these may be there
	least   int    // commits that must be there
	acked   int    // of them durable, the same after a power cut
	exists  bool   // the database, too
	propMin int    // the property has been changed so often at least
	propMax int
	copies  []copied // checkpoints begun
}

// copied is a checkpoint. It may hold the commits from lo to hi.
type copied struct {
	dir    string
	lo, hi int
	done   bool
}

// point is a place for a crash in a stage, and what it leaves.
type point struct {
	At   string  // right before an operation on a file, with * for numbers; close or closed
	Nth  int     // of those, from 1; 0 stands for any
	Kill bool    // of the process only
	Keep float64 // the part of what is not synced
	Seed uint64  // of what is kept, and of a recovery that is drawn
}

// Crashes when all operations are done; the first only if it is asked for.
const (
	beforeClose = "close"
	afterClose  = "closed"
)

// policy says where crashes are taken.
type policy struct {
	density float64 // how often at operations that change the disk, see crashChances
	every   int     // crashes before every operation that changes the disk, if not 0
	most    int     // crashes
	at      *point  // nothing but these; if at any operation
	from    int     // then not before so many operations have begun
	// again: in the recovery from every so many of the crashes there are crashes, too. Inner is
	// every of these recoveries; if it is 0 their crashes are random.
	again, inner int
}

// crashChances is how likely a crash is right before an operation: often where something
// becomes durable or known under a name, seldom at a write, never where nothing changes.
var crashChances = map[vfstest.OpKind]float64{
	vfstest.OpCreate: 0.3, vfstest.OpRemove: 0.3, vfstest.OpRename: 1, vfstest.OpLink: 0.3,
	vfstest.OpMkdirAll: 1, vfstest.OpSyncDir: 1, vfstest.OpSync: 0.5, vfstest.OpTruncate: 1,
	vfstest.OpAllocate: 0.5,
	vfstest.OpWrite:    0.2, vfstest.OpWriteAt: 0.2,
}

var numbers = regexp.MustCompile("[0-9]+")

// hook takes crashes.
func (r *run) hook(op vfstest.Op) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.add("operations on the disk", 1)
	chance := crashChances[op.Kind]
	if chance == 0 {
		return nil
	}
	r.changes++
	if op.Kind == vfstest.OpRename && r.renamed != nil {
		r.renamed[filepath.Base(op.NewName)[:3]]++
	}
	what := fmt.Sprintf("%s:%s", op.Kind, strings.ReplaceAll(op.Name, " ", "_"))
	where := fmt.Sprintf("change %d of the disk, %s", r.changes, what)
	at := r.pointLocked(numbers.ReplaceAllString(what, "*"))
	if r.at != nil {
		r.matchLocked(at, where)
		return nil
	}
	if r.taken < r.most {
		for range r.every {
			r.drawLocked(at, where)
		}
		if op.Kind == vfstest.OpSyncDir && r.every > 0 { // which of the new names are kept?
			for range 4 {
				at.Seed, at.Keep, at.Kill = r.rnd.Uint64(), 0.5, false
				r.takeLocked(at, where)
			}
		}
	}
	if r.rnd.Float64() < chance*r.density && r.taken < r.most {
		r.drawLocked(at, where)
	}
	return nil
}

func (r *run) beforeClose() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.pointLocked(beforeClose); r.at != nil {
		r.matchLocked(at, at.At)
	}
}

func (r *run) afterCloseLocked() {
	at := r.pointLocked(afterClose)
	switch {
	case r.at != nil:
		r.matchLocked(at, at.At)
	case r.most > 0:
		r.drawLocked(at, at.At)
	}
}

// pointLocked counts an operation.
func (r *run) pointLocked(at string) point {
	if r.seen == nil {
		r.seen = map[string]int{}
	}
	r.seen[at]++
	return point{At: at, Nth: r.seen[at]}
}

// drawLocked takes a kill, one time in four, or a power cut.
func (r *run) drawLocked(at point, where string) {
	at.Keep = []float64{0, 0.1, 0.5, 0.9, 1}[r.rnd.IntN(5)]
	at.Kill = r.rnd.IntN(4) == 0
	at.Seed = r.rnd.Uint64()
	r.takeLocked(at, where)
}

// matchLocked takes the crash that the policy asks for, if this is the place. Where any
// operation of its kind will do it is taken twice, with other things kept.
func (r *run) matchLocked(here point, where string) {
	at := *r.at
	switch {
	case at.At != here.At:
		return
	case at.Nth == here.Nth:
		r.takeLocked(at, where)
		return
	case at.Nth != 0, r.steps < r.from, r.taken >= r.most:
		return
	}
	at.Nth = here.Nth
	draws := 2
	if at.Kill || at.Keep == 0 || at.Keep == 1 {
		draws = 1
	}
	for range draws {
		at.Seed = r.rnd.Uint64()
		r.takeLocked(at, where)
	}
}

func (r *run) takeLocked(at point, where string) {
	r.crashes = append(r.crashes, r.crashLocked(at, where))
	r.taken++
	r.tally.add([]string{"crashes", "crashes of recoveries"}[min(1, len(r.before))], 1)
	if at.Kill {
		r.tally.add("kills", 1)
	}
}

// crashLocked returns what a crash leaves at this moment.
func (r *run) crashLocked(at point, where string) crash {
	c, disk := r.now, r.fs.(*vfstest.CrashFS)
	kind := "kill"
	if at.Kill {
		c.fs, c.least = disk.Kill(), r.done
	} else {
		kind = fmt.Sprintf("cut, keep %v,", at.Keep)
		c.disk = disk.PowerCut(rand.New(rand.NewPCG(at.Seed, 7)), at.Keep)
		c.least = c.acked
	}
	c.where = fmt.Sprintf("%s, %s at %s (commits begun %d, done %d, durable %d)", r.where, kind,
		where, len(c.states)-1, r.done, c.acked)
	c.run, c.point, c.steps, c.clock = r, at, r.steps, r.clock.Load()
	c.states = slices.Clip(c.states)
	c.copies = slices.Clone(c.copies)
	return c
}

// restart returns the file system that a crash has left.
func (c *crash) restart() *vfstest.CrashFS {
	if c.disk != nil {
		c.fs, c.disk = vfstest.CrashOf(c.disk), nil
	}
	return c.fs
}

// judge judges the crashes taken so far and lets go of them.
func (r *run) judge() *failure {
	if f := r.failure(); f != nil {
		return f
	}
	r.mu.Lock()
	crashes := r.crashes
	r.crashes = nil
	r.mu.Unlock()
	for i := range crashes {
		if f := crashes[i].recovery(i).judgeCrash(&crashes[i]); f != nil {
			return f
		}
		crashes[i] = crash{}
	}
	return nil
}

// recovery returns the run that begins with what the i-th crash has left.
func (c *crash) recovery(i int) *run {
	r, at := c.run, c.point
	rnd := rand.New(rand.NewPCG(at.Seed, 8))
	next := newRun(r.trial, c.where, stage{}, rnd.Uint64())
	next.fs = c.restart()
	next.before = append(slices.Clip(r.before), link{r.stage, &at, c.steps})
	next.unfiltered = r.unfiltered
	next.clock.Store(c.clock)
	switch {
	case len(r.after) > 0:
		next.stage, next.after = r.after[0].stage, r.after[1:]
		next.policy = r.after[0].policy(r.after[1:])
	default:
		next.stage = drawRecovery(rnd)
		if r.again > 0 && i%r.again == 0 {
			next.policy = policy{density: 0.1, most: 2}
			if r.inner > 0 {
				next.policy = policy{every: r.inner, most: 1000}
			}
		}
	}
	next.opts.MustExist = c.exists
	next.now.exists = c.exists
	return next
}

// judgeCrash opens what a crash has left, compares, works on with it, and judges the crashes
// taken meanwhile.
func (r *run) judgeCrash(c *crash) *failure {
	defer r.abandon()
	if r.check("open", r.open()); r.failure() == nil {
		r.check("recovered", r.adopt(c))
	}
	if r.failure() == nil {
		r.check("recovered", r.changesAre(r.db))
	}
	if f := r.failure(); f != nil {
		return f
	}
	if f := r.play(); f != nil {
		return f
	}
	r.check("close", r.close())
	for _, k := range c.copies {
		r.check(fmt.Sprintf("checkpoint %s, finished %t", k.dir, k.done), r.checkCopy(c, k))
	}
	return r.judge()
}

// adopt checks what recovery has found and makes it the beginning of the run. A crash that was
// taken meanwhile leaves the same; after a kill it may still lose what was not durable before.
func (r *run) adopt(c *crash) error {
	m, err := findState(r.db, c.states, c.clock, c.least, len(c.states)-1)
	if err != nil {
		return err
	}
	prop, err := findProperty(r.db, c.propMin, c.propMax)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	found := c.states[: m+1 : m+1]
	for i := range r.crashes {
		k := &r.crashes[i]
		k.states, k.propMin, k.propMax = found, prop, prop
		k.least, k.acked = m, m
		if c.point.Kill {
			k.least, k.acked, k.propMin = c.acked, c.acked, c.propMin
		}
		if k.point.Kill {
			k.least = m
		}
	}
	r.now.states, r.done, r.now.propMin, r.now.propMax = found, m, prop, prop
	if r.now.acked = m; c.point.Kill {
		r.now.acked, r.now.propMin = c.acked, c.propMin
	}
	return nil
}

// findState verifies a database and returns the number of commits in it.
func findState(db *engine.DB, s states, now int64, lo, hi int) (int, error) {
	if _, err := db.Verify(ctx, nil); err != nil {
		return 0, fmt.Errorf("verify: %w", err)
	}
	all, err := collect(db.Scan(ctx, engine.Scan{}))
	if err != nil {
		return 0, fmt.Errorf("scan: %w", err)
	}
	found := items{}
	for _, it := range all {
		found[id(it.Key)] = &item{it.Key, it.Value, it.Expiry, 0}
	}
	m, ok := s.find(found, now, lo, hi)
	if !ok {
		return 0, errors.New(s.explain(found, now, lo, hi))
	}
	return m, nil
}

// findProperty returns how often the property has been changed.
func findProperty(db *engine.DB, lo, hi int) (int, error) {
	v, there := db.Property("n")
	for n := hi; n >= lo; n-- {
		// Of a longer value only the head is compared: it may have any padding.
		want := propertyOf(n, 0)
		if there == (want != nil) && strings.TrimRight(string(v), " ") == string(want) {
			return n, nil
		}
	}
	return 0, fmt.Errorf("property is %.9q, want %d to %d changes", v, lo, hi)
}

// checkCopy opens a checkpoint. One that was not finished may be missing, but then it
// is not a database.
func (r *run) checkCopy(c *crash, k copied) error {
	db, err := openOn(r.fs, k.dir, &engine.Options{MustExist: true, Clock: r.options().Clock})
	missing := errors.Is(err, engine.ErrNotExist) || errors.Is(err, engine.ErrNotDatabase)
	if missing && !k.done {
		return nil
	}
	if err != nil {
		return err
	}
	hi := k.hi
	if !k.done {
		hi = len(c.states) - 1
	}
	_, err = findState(db, c.states, r.clock.Load(), k.lo, hi)
	return errors.Join(err, db.Close())
}

// tally counts what the programs do, so that a test can say how much it has seen. Nil counts
// nothing.
type tally struct {
	mu     sync.Mutex
	counts map[string]int // Guarded by mu
}

func newTally() *tally { return &tally{counts: map[string]int{}} }

func (c *tally) add(what string, n int) {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.counts[what] += n
	}
}

func (c *tally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprint(c.counts)
}
