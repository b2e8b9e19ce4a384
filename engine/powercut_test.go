package engine_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
)

// Environment of TestPowerCutsOfTheWholeEngine.
const (
	powerCutRunsEnv = "KSTONE_POWERCUT_RUNS" // number of programs
	powerCutSeedEnv = "KSTONE_POWERCUT_SEED" // of the first program
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
// The recovery from it is such a program, too.
//
// The seed fixes programs and disks, not when the goroutines of the database run: to see
// a failure again, run the seed several times.
func TestPowerCutsOfTheWholeEngine(t *testing.T) {
	programs, seed := 15, rand.Uint64()
	if raceEnabled || testing.Short() {
		programs = 3
	}
	if s := os.Getenv(powerCutRunsEnv); s != "" {
		programs, _ = strconv.Atoi(s)
	}
	if s := os.Getenv(powerCutSeedEnv); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	total := 0
	for i := range programs {
		total += powerCutProgram(t, seed+uint64(i))
		if t.Failed() {
			t.Fatalf("repeat with %s=%d %s=1", powerCutSeedEnv, seed+uint64(i), powerCutRunsEnv)
		}
	}
	t.Logf("%d programs from seed %d, %d power cuts", programs, seed, total)
}

// powerCutProgram runs one program and checks the power cuts in it; it returns how many.
func powerCutProgram(t *testing.T, seed uint64) int {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 0)) // of the program
	where := fmt.Sprintf("%s=%d", powerCutSeedEnv, seed)
	r := &cutRun{
		t: t, where: where, fs: vfs.NewCrash(), opts: cutOptions(rnd), large: rnd.IntN(3) == 0,
		dir: "copies", rnd: rand.New(rand.NewPCG(seed, 1)), density: 0.1, most: 30,
	}
	r.open()
	r.program(rnd, 20+rnd.IntN(100))
	r.close()
	for i := range r.cuts {
		if t.Failed() {
			break
		}
		r.cuts[i].check(t, rand.New(rand.NewPCG(seed, uint64(3+i))), true)
	}
	return len(r.cuts)
}

// close closes the database, which makes everything durable, and cuts the power.
func (r *cutRun) close() {
	if err := r.db.Close(); err != nil {
		r.t.Errorf("%s: close: %v", r.where, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.acked = r.begun
	if r.most == 0 {
		return
	}
	r.cutLocked("after close")
}

// check opens what a cut has left, compares, and works on with it. If again is set the
// power is cut during all that, too.
func (c *powerCut) check(t *testing.T, rnd *rand.Rand, again bool) {
	t.Helper()
	if c.disk != nil {
		c.fs, c.disk = vfs.CrashOf(c.disk), nil
	}
	dir := "copies of the second run"
	if !again {
		dir = "copies of the third run"
	}
	next := &cutRun{
		t: t, where: c.where, fs: c.fs, opts: cutOptions(rnd), dir: dir,
		rnd: rand.New(rand.NewPCG(rnd.Uint64(), 4)),
	}
	if again {
		next.density, next.most = 0.1, 2
	}
	if again && c.inner > 0 {
		next.density, next.every, next.most = 0, c.inner, 1000
	}
	next.opts.MustExist = c.exists
	next.now.exists = c.exists
	next.open()
	m := c.checkState(t, next.db)
	prop := c.checkProperty(t, next.db)
	if t.Failed() {
		return
	}
	next.startFrom(c, c.history[:m:m], prop)
	for range rnd.IntN(8) {
		next.commit(rnd)
	}
	next.maintain(rnd)
	next.close()
	for _, k := range c.copies {
		c.checkCopy(t, next.fs, k)
	}
	for i := range next.cuts {
		if t.Failed() {
			return
		}
		next.cuts[i].check(t, rand.New(rand.NewPCG(rnd.Uint64(), 5)), false)
	}
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
		if c.killed {
			k.least, k.acked, k.propMin = c.acked, c.acked, c.propMin
		}
		if k.killed {
			k.least = m
		}
	}
	r.begun, r.done = m, m
	r.now.history, r.now.acked, r.now.propMin, r.now.propMax = found, m, prop, prop
}

// checkState returns the number of commits in the database.
func (c *powerCut) checkState(t *testing.T, db *engine.DB) int {
	t.Helper()
	if _, err := db.Verify(ctx, nil); err != nil {
		t.Errorf("%s: verify: %v", c.where, err)
	}
	m, ok := c.history.find(cutContent(t, db), c.least, len(c.history))
	if !ok {
		c.explain(t, db, c.least, len(c.history))
	}
	return m
}

// cutContent reads the state of the database.
func cutContent(t *testing.T, db *engine.DB) map[string]string {
	t.Helper()
	state := map[string]string{}
	for it, err := range db.Scan(ctx, engine.Scan{}) {
		ok(t, err)
		state[string(it.Key.PK)+"/"+string(it.Key.SK)] = string(it.Value)
	}
	return state
}

// explain reports the number of commits that comes closest to the state, and what is not
// as after it.
func (c *powerCut) explain(t *testing.T, db *engine.DB, lo, hi int) {
	t.Helper()
	state := cutContent(t, db)
	if m, ok := c.history.find(state, 0, len(c.history)); ok {
		t.Errorf("%s: found the first %d commits, want %d to %d", c.where, m, lo, hi)
		return
	}
	at, best, words := map[string]string{}, -1, ""
	for n := 0; n <= len(c.history); n++ {
		if n > 0 {
			c.history.apply(n, at)
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
	t.Errorf("%s: no prefix of %d to %d commits; closest: %.500s", c.where, lo, hi, words)
}

// checkProperty returns the value of the property.
func (c *powerCut) checkProperty(t *testing.T, db *engine.DB) int {
	t.Helper()
	n := 0
	if b, ok := db.Property("n"); ok {
		n = int(binary.BigEndian.Uint32(b))
	}
	if n < c.propMin || n > c.propMax {
		t.Errorf("%s: property is %d, want %d to %d", c.where, n, c.propMin, c.propMax)
	}
	return n
}

// checkCopy opens a checkpoint. One that was not finished may be missing, but then it
// is no database.
func (c *powerCut) checkCopy(t *testing.T, fsys vfs.FS, k cutCopy) {
	t.Helper()
	db, err := engine.OpenFS(fsys, k.dir, &engine.Options{MustExist: true})
	missing := errors.Is(err, engine.ErrNotExist) || errors.Is(err, engine.ErrNotDatabase)
	if missing && !k.done {
		return
	}
	if err != nil {
		t.Errorf("%s: checkpoint %s, finished %t: open: %v", c.where, k.dir, k.done, err)
		return
	}
	if _, err := db.Verify(ctx, nil); err != nil {
		t.Errorf("%s: checkpoint %s: verify: %v", c.where, k.dir, err)
	}
	hi := k.hi
	if !k.done {
		hi = len(c.history)
	}
	if _, ok := c.history.find(cutContent(t, db), k.lo, hi); !ok {
		t.Errorf("%s: checkpoint %s, finished %t:", c.where, k.dir, k.done)
		c.explain(t, db, k.lo, hi)
	}
	mustClose(t, db)
}
