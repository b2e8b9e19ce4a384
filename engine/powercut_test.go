package engine_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// Goal: whenever the power fails, the database opens, is free of damage and holds exactly
// the first m commits, over all stripes, with m not below what was acknowledged as
// durable; properties and checkpoints that were acknowledged are there; and it works on
// and survives the next power cut, also one during this recovery. The same after a kill
// of the process, with all that was acknowledged at any level, and a power cut after it.
//
// Method: random programs on a file system that knows what is durable. Before random
// operations on it the disk of a power cut at that moment is kept; when the program is
// through, each is opened and compared with the state after every number of commits.
// The recovery from it is such a program, too. A program that fails is reduced to the
// steps and the cuts that it takes, and printed (see cutReducer).
//
// The seed fixes programs and disks, not when the goroutines of the database run: to see
// a failure again, run the seed several times.
//
// Promise (durability): Acknowledged at `Sync`, or before a `DB.Sync`, flush or Close: survives
// a power cut. Also in the synced part of the log: `TestConcurrentAppendSync`, `TestGroupCommit`
// in `wal`.
// Promise (durability): After a power cut, also one during the recovery from another or from a
// kill, the database opens, verifies, and is a prefix of the commits over all stripes;
// acknowledged properties and checkpoints are there. Also that the simulated disk keeps no more
// than was synced: `TestPowerCutKeepsWhatWasSynced`, `TestPowerCutTears`,
// `TestKillKeepsBothSides` in `internal/vfs`.
func TestPowerCutsOfTheWholeEngine(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	programs, seed := testutil.Effort(3, 200), testutil.Seed(t)
	trial := cutTrial{tally: newCutTally()}
	for i := range programs {
		seed := seed + uint64(i)
		if f := trial.program(seed); f != nil {
			t.Fatalf("repeat with: %s\n%s", testutil.Repeat(t, seed),
				trial.explain(f, time.Now().Add(cutReduceTime)))
		}
	}
	t.Log(trial.tally)
}

// program runs the program of a seed and judges the power cuts in it.
func (c cutTrial) program(seed uint64) *cutFailure {
	stage := drawProgram(rand.New(rand.NewPCG(seed, 0)))
	r := newCutRun(c, fmt.Sprintf("seed %d", seed), stage, seed)
	r.cutPolicy = cutPolicy{density: 0.1, most: 24, again: 1}
	return r.run()
}

// judge judges the cuts taken so far and lets go of them.
func (r *cutRun) judge() *cutFailure {
	if f := r.failure(); f != nil {
		return f
	}
	r.mu.Lock()
	cuts := r.cuts
	r.cuts = nil
	r.mu.Unlock()
	for i := range cuts {
		if f := cuts[i].recovery(i).judgeCut(&cuts[i]); f != nil {
			return f
		}
		cuts[i] = powerCut{}
	}
	return nil
}

// recovery returns the run that begins with what the i-th cut has left.
func (c *powerCut) recovery(i int) *cutRun {
	if c.disk != nil {
		c.fs, c.disk = vfstest.CrashOf(c.disk), nil
	}
	r, point := c.run, c.point
	rnd := rand.New(rand.NewPCG(point.seed, 8))
	next := &cutRun{
		cutTrial: r.cutTrial, where: c.where, fs: c.fs,
		dir:    "copies of the second run",
		before: append(slices.Clip(r.before), cutLink{r.stage, &point, c.steps}),
		rnd:    rand.New(rand.NewPCG(rnd.Uint64(), 4)),
	}
	if len(r.before) > 0 {
		next.dir = "copies of the third run"
	}
	switch {
	case len(r.after) > 0:
		next.stage, next.after = r.after[0].stage, r.after[1:]
		next.cutPolicy = r.after[0].policy(r.after[1:])
	default:
		next.stage = drawRecovery(rnd, len(next.before))
		if r.again > 0 && i%r.again == 0 {
			next.cutPolicy = cutPolicy{density: 0.1, most: 2}
			if r.inner > 0 {
				next.cutPolicy = cutPolicy{every: r.inner, most: 1000}
			}
		}
	}
	next.stage.opts.MustExist = c.exists
	next.now.exists = c.exists
	return next
}

// judgeCut opens what a cut has left, compares, works on with it, and judges the cuts
// taken meanwhile.
func (r *cutRun) judgeCut(c *powerCut) *cutFailure {
	defer r.abandon()
	r.open()
	if f := r.failure(); f != nil {
		return f
	}
	m := r.checkState(c)
	prop := r.checkProperty(c)
	if f := r.failure(); f != nil {
		return f
	}
	r.startFrom(c, c.history[:m:m], prop)
	if f := r.play(); f != nil {
		return f
	}
	r.close()
	for _, k := range c.copies {
		r.checkCopy(c, k)
	}
	return r.judge()
}

// startFrom makes what recovery has found the beginning of the run. A cut that was taken
// meanwhile leaves the same; after a kill it may still lose what was not durable before.
func (r *cutRun) startFrom(c *powerCut, found cutHistory, prop int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := len(found)
	for i := range r.cuts {
		k := &r.cuts[i]
		k.history, k.propMin, k.propMax = found, prop, prop
		k.least, k.acked = m, m
		if c.point.kill {
			k.least, k.acked, k.propMin = c.acked, c.acked, c.propMin
		}
		if k.point.kill {
			k.least = m
		}
	}
	r.begun, r.done = m, m
	r.now.history, r.now.acked, r.now.propMin, r.now.propMax = found, m, prop, prop
}

// checkState returns the number of commits in the database.
func (r *cutRun) checkState(c *powerCut) int {
	if _, err := r.db.Verify(ctx, nil); err != nil {
		r.failf("verify: %v", err)
	}
	state, err := cutContent(r.db)
	if err != nil {
		r.failf("scan: %v", err)
	}
	m, ok := c.history.find(state, c.least, len(c.history))
	if !ok {
		r.failf("%s", c.history.explain(state, c.least, len(c.history)))
	}
	return m
}

// cutContent reads the state of the database.
func cutContent(db *engine.DB) (map[string]string, error) {
	state := map[string]string{}
	for it, err := range db.Scan(ctx, engine.Scan{}) {
		if err != nil {
			return nil, err
		}
		state[string(it.Key.PK)+"/"+string(it.Key.SK)] = string(it.Value)
	}
	return state, nil
}

// explain reports the number of commits that comes closest to the state, and what is not
// as after it.
func (h cutHistory) explain(state map[string]string, lo, hi int) string {
	if m, ok := h.find(state, 0, len(h)); ok {
		return fmt.Sprintf("found the first %d commits, want %d to %d", m, lo, hi)
	}
	at, best, words := map[string]string{}, -1, ""
	for n := 0; n <= len(h); n++ {
		if n > 0 {
			h.apply(n, at)
		}
		diff, text := 0, ""
		for k := range at {
			if at[k] != state[k] {
				diff++
				text += fmt.Sprintf(" %s is %.6q, want %.6q;", k, state[k], at[k])
			}
		}
		for k, v := range state {
			if _, there := at[k]; !there {
				diff++
				text += fmt.Sprintf(" %s is %.6q, want nothing;", k, v)
			}
		}
		if best < 0 || diff < best {
			best, words = diff, fmt.Sprintf("first %d commits but%s", n, text)
		}
	}
	return fmt.Sprintf("no prefix of %d to %d commits; closest: %.500s", lo, hi, words)
}

// checkProperty returns the value of the property.
func (r *cutRun) checkProperty(c *powerCut) int {
	n := 0
	if b, ok := r.db.Property("n"); ok {
		n = int(binary.BigEndian.Uint32(b))
	}
	if n < c.propMin || n > c.propMax {
		r.failf("property is %d, want %d to %d", n, c.propMin, c.propMax)
	}
	return n
}

// checkCopy opens a checkpoint. One that was not finished may be missing, but then it
// is no database.
func (r *cutRun) checkCopy(c *powerCut, k cutCopy) {
	what := fmt.Sprintf("checkpoint %s, finished %t", k.dir, k.done)
	db, err := engine.OpenFS(r.fs, k.dir, &engine.Options{MustExist: true})
	missing := errors.Is(err, engine.ErrNotExist) || errors.Is(err, engine.ErrNotDatabase)
	if missing && !k.done {
		return
	}
	if err != nil {
		r.failf("%s: open: %v", what, err)
		return
	}
	if _, err := db.Verify(ctx, nil); err != nil {
		r.failf("%s: verify: %v", what, err)
	}
	hi := k.hi
	if !k.done {
		hi = len(c.history)
	}
	state, err := cutContent(db)
	if err != nil {
		r.failf("%s: scan: %v", what, err)
	}
	if _, ok := c.history.find(state, k.lo, hi); !ok {
		r.failf("%s: %s", what, c.history.explain(state, k.lo, hi))
	}
	if err := db.Close(); err != nil {
		r.failf("%s: close: %v", what, err)
	}
}
