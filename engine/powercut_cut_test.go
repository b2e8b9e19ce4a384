package engine_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"sync"

	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// powerCut is a machine after a power cut, or after the process was killed, and what was
// promised when it happened.
type powerCut struct {
	run     *cutRun // in which it was taken
	where   string
	point   cutPoint
	steps   int // begun
	fs      *vfstest.CrashFS
	disk    *vfs.MemFS // instead of fs, while nobody looks at it: it takes less memory
	history cutHistory // commits begun; no more than these may be there
	least   int        // commits that must be there
	acked   int        // of them durable, the same after a power cut
	exists  bool       // the database, too
	propMin int        // the property has at least this value
	propMax int
	copies  []cutCopy // checkpoints begun
}

// cutCopy is a checkpoint. It may hold the commits from lo to hi.
type cutCopy struct {
	dir    string
	lo, hi int
	done   bool
}

// cutPoint is a place for a cut in a stage, and what it leaves.
type cutPoint struct {
	op   string  // "before" an operation and its file, with * for numbers; or a cut...Close
	nth  int     // of those, from 1; 0 stands for any
	kill bool    // of the process only
	keep float64 // the part of what is not synced
	seed uint64  // of what is kept, and of a recovery that is drawn
}

// Cuts when all steps are done; the first only if it is asked for.
const (
	cutBeforeClose = "before close"
	cutAfterClose  = "after close"
)

// cutPolicy says where cuts are taken.
type cutPolicy struct {
	density float64   // how often at operations that change the disk, see cutChances
	every   int       // cuts before every operation that changes the disk, if not 0
	most    int       // cuts
	at      *cutPoint // nothing but these; if at any operation
	from    int       // then not before so many steps have begun
	// again: in the recovery from every so many of the cuts there are cuts, too. Inner is
	// every of these recoveries; if it is 0 their cuts are random.
	again, inner int
}

// cutChances is how likely a cut is right before an operation: often where something
// becomes durable or known under a name, seldom at a write, never where nothing changes.
var cutChances = map[vfstest.OpKind]float64{
	vfstest.OpCreate: 0.3, vfstest.OpRemove: 0.3, vfstest.OpRename: 1, vfstest.OpLink: 0.3,
	vfstest.OpMkdirAll: 1, vfstest.OpSyncDir: 1, vfstest.OpSync: 0.5, vfstest.OpTruncate: 1,
	vfstest.OpAllocate: 0.5,
	vfstest.OpWrite:    0.2, vfstest.OpWriteAt: 0.2,
}

var cutNumbers = regexp.MustCompile("[0-9]+")

// hook takes cuts.
func (r *cutRun) hook(op vfstest.Op) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops++
	r.tally.operation(op.Kind)
	chance := cutChances[op.Kind]
	if chance == 0 {
		return nil
	}
	if op.Kind == vfstest.OpRename && r.renamed != nil {
		r.renamed[filepath.Base(op.NewName)[:3]]++
	}
	what := fmt.Sprintf("before %s %s", op.Kind, op.Name)
	where := fmt.Sprintf("operation %d, %s", r.ops, what)
	point := r.pointLocked(cutNumbers.ReplaceAllString(what, "*"))
	if r.at != nil {
		r.matchLocked(point, where)
		return nil
	}
	if r.taken < r.most {
		for range r.every {
			r.cutLocked(point, where)
		}
		if op.Kind == vfstest.OpSyncDir && r.every > 0 { // which of the new names are kept?
			for range 4 {
				point.seed, point.keep, point.kill = r.rnd.Uint64(), 0.5, false
				r.takeLocked(point, where)
			}
		}
	}
	if r.rnd.Float64() < chance*r.density && r.taken < r.most {
		r.cutLocked(point, where)
	}
	return nil
}

func (r *cutRun) beforeClose() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if point := r.pointLocked(cutBeforeClose); r.at != nil {
		r.matchLocked(point, point.op)
	}
}

func (r *cutRun) afterCloseLocked() {
	point := r.pointLocked(cutAfterClose)
	switch {
	case r.at != nil:
		r.matchLocked(point, point.op)
	case r.most > 0:
		r.cutLocked(point, point.op)
	}
}

// pointLocked counts an operation.
func (r *cutRun) pointLocked(op string) cutPoint {
	if r.seen == nil {
		r.seen = map[string]int{}
	}
	r.seen[op]++
	return cutPoint{op: op, nth: r.seen[op]}
}

// cutLocked takes a kill, one time in four, or a power cut.
func (r *cutRun) cutLocked(point cutPoint, where string) {
	point.keep = []float64{0, 0.1, 0.5, 0.9, 1}[r.rnd.IntN(5)]
	point.kill = r.rnd.IntN(4) == 0
	point.seed = r.rnd.Uint64()
	r.takeLocked(point, where)
}

// matchLocked takes the cut that the policy asks for, if this is the place. Where any
// operation of its kind will do it is taken twice, with other things kept.
func (r *cutRun) matchLocked(point cutPoint, where string) {
	at := *r.at
	switch {
	case at.op != point.op:
		return
	case at.nth == point.nth:
		r.takeLocked(at, where)
		return
	case at.nth != 0, r.steps < r.from, r.taken >= r.most:
		return
	}
	at.nth = point.nth
	draws := 2
	if at.kill || at.keep == 0 || at.keep == 1 {
		draws = 1
	}
	for range draws {
		at.seed = r.rnd.Uint64()
		r.takeLocked(at, where)
	}
}

// takeLocked takes a cut.
func (r *cutRun) takeLocked(point cutPoint, where string) {
	c := r.now
	kind := "kill"
	if point.kill {
		c.fs, c.least = r.fs.Kill(), r.done
	} else {
		kind = fmt.Sprintf("cut, keep %v,", point.keep)
		c.disk = r.fs.PowerCut(rand.New(rand.NewPCG(point.seed, 7)), point.keep)
		c.least = c.acked
	}
	c.where = fmt.Sprintf("%s, %s at %s (commits begun %d, done %d, durable %d)", r.where, kind,
		where, r.begun, r.done, c.acked)
	c.run, c.point, c.steps = r, point, r.steps
	c.history = c.history[:r.begun:r.begun]
	c.copies = slices.Clone(c.copies)
	r.cuts = append(r.cuts, c)
	r.taken++
	r.tally.cut(len(r.before), point.kill)
}

// cutTally counts what the programs do, so that a test can say how much it has seen. Nil
// counts nothing.
type cutTally struct {
	mu         sync.Mutex
	operations map[vfstest.OpKind]int // Guarded by mu, like all below: on the disk
	steps      map[byte]int
	overlaps   int    // commits that began while there was a step beside them
	cuts       [2]int // in programs; in recoveries
	kills      int    // of all cuts
}

func newCutTally() *cutTally {
	return &cutTally{operations: map[vfstest.OpKind]int{}, steps: map[byte]int{}}
}

func (c *cutTally) operation(kind vfstest.OpKind) {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.operations[kind]++
	}
}

func (c *cutTally) step(kind byte) {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.steps[kind]++
	}
}

func (c *cutTally) commit(overlaps bool) {
	c.step('c')
	if c != nil && overlaps {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.overlaps++
	}
}

func (c *cutTally) cut(level int, kill bool) {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.cuts[min(level, 1)]++
		if kill {
			c.kills++
		}
	}
}

// String reports the counts.
func (c *cutTally) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	total, changes, steps := 0, 0, ""
	for kind, n := range c.operations {
		total += n
		if cutChances[kind] > 0 {
			changes += n
		}
	}
	for _, kind := range []byte("cfmpkso") {
		steps += fmt.Sprintf(", %s %d", cutWords[kind], c.steps[kind])
	}
	return fmt.Sprintf("%d cuts, and %d during recoveries from them; %d of all are kills; "+
		"%d operations, of which %d change the disk; steps%s; %d commits beside others",
		c.cuts[0], c.cuts[1], c.kills, total, changes, steps, c.overlaps)
}
