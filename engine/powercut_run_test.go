package engine_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// cutTrial is what all stages of a trial have in common.
type cutTrial struct {
	tally *cutTally // nil counts nothing

	// Bugs planted to see whether they are found: a file system that breaks a promise
	// at that level (see cutRun), and a kind of operation that the reference forgets.
	plant  func(level int, fsys vfs.FS) vfs.FS
	forget byte
}

// cutFailure is what went wrong, and how it came about: the stages with the cuts that
// ended all but the last of them.
type cutFailure struct {
	text string
	path []cutLink
}

// cutLink is a stage, and the cut in it after which the next stage begins.
type cutLink struct {
	stage cutStage
	at    *cutPoint // nil in the last one
	begun int       // steps at the time of the cut; all of them in the last one
}

// cutRun is a stage that runs, and the cuts taken meanwhile. Its level is the number of
// cuts before it.
type cutRun struct {
	cutTrial
	where  string // how it came to this stage, for messages
	stage  cutStage
	before []cutLink
	after  []cutLink // of a repetition: what the cuts are judged with
	fs     *vfstest.CrashFS
	db     *engine.DB
	dir    string // of checkpoints

	mu        sync.Mutex
	wrong     string     // Guarded by mu, like all below: the first thing that went wrong
	rnd       *rand.Rand // for cuts only
	cutPolicy            // see there
	ops       int
	seen      map[string]int // operations, see cutPoint.op
	renamed   map[string]int // files by the first letters of their new name
	steps     int            // begun
	beside    bool           // one that is beside others is being done
	now       powerCut       // promises of the moment, without a disk
	begun     int            // commits
	done      int            // commits that have returned
	taken     int
	cuts      []powerCut // of those taken, the ones that are not judged yet
}

// newCutRun returns a run on an empty disk.
func newCutRun(trial cutTrial, where string, stage cutStage, seed uint64) *cutRun {
	return &cutRun{
		cutTrial: trial, where: where, stage: stage, fs: vfstest.NewCrash(), dir: "copies",
		rnd: rand.New(rand.NewPCG(seed, 1)),
	}
}

// run does the stage and judges its cuts. It ends with the first thing that is wrong.
func (r *cutRun) run() *cutFailure {
	defer r.abandon()
	r.open()
	if f := r.play(); f != nil {
		return f
	}
	r.close()
	return r.judge()
}

// failf notes that something is wrong, unless something was before.
func (r *cutRun) failf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wrong == "" {
		r.wrong = fmt.Sprintf("%s: %s", r.where, fmt.Sprintf(format, args...))
	}
}

// failure returns what went wrong in the run itself, or nil.
func (r *cutRun) failure() *cutFailure {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wrong == "" {
		return nil
	}
	last := cutLink{stage: r.stage, begun: len(r.stage.steps)}
	return &cutFailure{r.wrong, append(slices.Clip(r.before), last)}
}

// open opens the database on the file system of the run.
func (r *cutRun) open() {
	var fsys vfs.FS = r.fs
	if r.plant != nil {
		fsys = r.plant(len(r.before), fsys)
	}
	db, err := engine.OpenFS(vfstest.NewFault(fsys, r.hook), "db", &r.stage.opts)
	if err != nil {
		r.failf("open: %v", err)
		return
	}
	r.db = db
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.exists = true
}

// abandon closes the database of a run that has failed.
func (r *cutRun) abandon() {
	if r.db != nil {
		_ = r.db.Close() // what is wrong is known
		r.db = nil
	}
}

// close closes the database, which makes everything durable, and cuts the power.
func (r *cutRun) close() {
	if r.db == nil || r.failure() != nil {
		return
	}
	err := r.db.Close()
	r.db = nil
	if err != nil {
		r.failf("close: %v", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.acked = r.begun
	r.afterCloseLocked()
}

// cutsWaiting is the number of steps beside others that may wait for an earlier one before
// the program waits, too. So there is nearly always one under way.
const cutsWaiting = 4

// play does the steps. If all of them come one after the other, the cuts are judged
// after each: their disks may be large.
func (r *cutRun) play() *cutFailure {
	steps := r.stage.steps
	concurrent := slices.ContainsFunc(steps, func(s cutStep) bool { return s.beside })
	beside, stopped := make(chan cutStep, cutsWaiting), make(chan struct{})
	var busy sync.WaitGroup
	go func() {
		defer close(stopped)
		for s := range beside {
			r.setBeside(true)
			r.do(s)
			r.setBeside(false)
			busy.Done()
		}
	}()
	defer func() {
		close(beside)
		<-stopped
	}()
	for i, s := range steps {
		if f := r.failure(); f != nil {
			return f
		}
		r.mu.Lock()
		r.steps = i + 1
		r.mu.Unlock()
		switch {
		case s.beside:
			busy.Add(1)
			beside <- s
			continue
		case s.kind == 'o', s.kind == 'p': // one value of the property at a time
			busy.Wait()
		}
		r.do(s)
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
	return nil
}

func (r *cutRun) setBeside(b bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beside = b
}

// do does one step.
func (r *cutRun) do(s cutStep) {
	switch s.kind {
	case 'c':
		r.commit(s)
		return
	case 'f':
		r.durable("flush", r.db.Flush)
	case 'm':
		r.durable("merge", r.db.Compact)
	case 's':
		r.durable("sync", r.db.Sync)
	case 'p':
		r.property()
	case 'k':
		r.checkpoint()
	case 'o':
		r.close()
		if r.failure() == nil {
			r.open()
		}
	}
	r.tally.step(s.kind)
}

// commit does one commit.
func (r *cutRun) commit(s cutStep) {
	ops := s.valued()
	known := slices.DeleteFunc(slices.Clone(ops), func(o cutOp) bool { return o.kind == r.forget })
	o := engine.Process
	switch {
	case s.tx:
		o = r.stage.opts.Durability
	case s.sync:
		o = engine.Sync
	}
	r.mu.Lock()
	r.tally.commit(r.beside)
	n := r.begun + 1
	r.now.history = append(r.now.history[:r.begun:r.begun], known)
	r.begun = n
	r.mu.Unlock()
	if err := s.write(r.db, ops, o); err != nil {
		r.failf("commit %d: %v", s.id, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = n
	if o == engine.Sync {
		r.now.acked = n
	}
}

// durable runs what makes all commits durable that have returned.
func (r *cutRun) durable(what string, f func(context.Context) error) {
	r.mu.Lock()
	done := r.done
	r.mu.Unlock()
	if err := f(ctx); err != nil {
		r.failf("%s: %v", what, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.acked = max(r.now.acked, done)
}

func (r *cutRun) property() {
	r.mu.Lock()
	r.now.propMax++
	n := r.now.propMax
	r.mu.Unlock()
	value := binary.BigEndian.AppendUint32(nil, uint32(n))
	value = append(value, make([]byte, r.stage.padding)...)
	if err := r.db.SetProperty("n", value); err != nil {
		r.failf("property: %v", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.propMin = n
}

// checkpoint makes one of three checkpoints at most.
func (r *cutRun) checkpoint() {
	r.mu.Lock()
	i := len(r.now.copies)
	if i == 3 {
		r.mu.Unlock()
		return
	}
	c := cutCopy{dir: fmt.Sprintf("%s/%d", r.dir, i), lo: r.done}
	r.now.copies = append(r.now.copies, c)
	r.mu.Unlock()
	if err := r.db.Checkpoint(ctx, c.dir, nil); err != nil {
		r.failf("checkpoint: %v", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.acked = max(r.now.acked, c.lo) // a checkpoint flushes
	r.now.copies[i].done, r.now.copies[i].hi = true, r.begun
}
