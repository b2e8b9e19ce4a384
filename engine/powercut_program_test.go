package engine_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
)

// cutOp is one operation of a commit: put, delete, or delete of all sort keys that begin
// with sk.
type cutOp struct {
	kind   byte // 'p', 'd', 'r'
	pk, sk string
	value  string
}

// cutHistory holds the commits in the order of one writer.
type cutHistory [][]cutOp

// apply does commit n (from 1) to a state.
func (h cutHistory) apply(n int, state map[string]string) {
	for _, o := range h[n-1] {
		switch k := o.pk + "/" + o.sk; o.kind {
		case 'p':
			state[k] = o.value
		case 'd':
			delete(state, k)
		case 'r':
			maps.DeleteFunc(state, func(at, _ string) bool { return strings.HasPrefix(at, k) })
		}
	}
}

// find returns the highest m of [lo, hi] such that the state after the first m commits is
// the given one.
func (h cutHistory) find(state map[string]string, lo, hi int) (m int, ok bool) {
	at := map[string]string{}
	for n := 0; n <= hi; n++ {
		if n > 0 {
			h.apply(n, at)
		}
		if n >= lo && maps.Equal(at, state) {
			m, ok = n, true
		}
	}
	return m, ok
}

// powerCut is a machine after a power cut, or after the process was killed, and what was
// promised when it happened.
type powerCut struct {
	where   string
	fs      *vfs.CrashFS
	disk    *vfs.MemFS // instead of fs, while nobody looks at it: it takes less memory
	killed  bool
	history cutHistory // commits begun; no more than these may be there
	least   int        // commits that must be there
	acked   int        // of them durable, the same after a power cut
	exists  bool       // the database, too
	propMin int        // the property has at least this value
	propMax int
	copies  []cutCopy // checkpoints begun
	inner   int       // see cutRun
}

// cutCopy is a checkpoint. It may hold the commits from lo to hi.
type cutCopy struct {
	dir    string
	lo, hi int
	done   bool
}

// cutRun is a program on a database and the power cuts taken while it runs.
type cutRun struct {
	t     testing.TB
	where string
	fs    *vfs.CrashFS
	db    *engine.DB
	opts  engine.Options
	large bool // values that fill log segments
	// padding makes the property larger, so that the manifest is soon written anew.
	padding int
	dir     string // of checkpoints

	mu      sync.Mutex
	rnd     *rand.Rand // Guarded by mu, like all below; for cuts only
	density float64    // of cuts
	every   int        // cuts before every operation that changes the disk, if not 0
	inner   int        // the same during the recovery from each
	most    int        // cuts
	ops     int
	renamed map[string]int // files by the first letters of their new name
	now     powerCut       // promises of the moment, without a disk
	begun   int            // commits
	done    int            // commits that have returned
	cuts    []powerCut
}

// cutOptions draws options that make flushes, merges and recycling frequent.
func cutOptions(rnd *rand.Rand) engine.Options {
	return engine.Options{
		Durability:    engine.Sync + engine.Durability(rnd.IntN(2)),
		MemtableBytes: 1 << 20, LogBytes: 8 << 20,
		CacheBytes: 1 << 20, MaxOpenFiles: 16, BlockBytes: 1 << 10, FileBytes: 64 << 10,
		FlushRecords: []int{0, 1, 3, 10}[rnd.IntN(4)], MaxRuns: 2 + rnd.IntN(2),
		Compression: engine.NoCompression,
	}
}

// cutChances is how likely a cut is right before an operation: often where something
// becomes durable or known under a name, seldom at a write, never where nothing changes.
var cutChances = map[vfs.OpKind]float64{
	vfs.OpCreate: 0.3, vfs.OpRemove: 0.3, vfs.OpRename: 1, vfs.OpLink: 0.3, vfs.OpMkdirAll: 1,
	vfs.OpSyncDir: 1, vfs.OpSync: 0.5, vfs.OpTruncate: 1, vfs.OpAllocate: 0.5,
	vfs.OpWrite: 0.2, vfs.OpWriteAt: 0.2,
}

// hook takes power cuts.
func (r *cutRun) hook(op vfs.Op) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops++
	if op.Kind == vfs.OpRename && r.renamed != nil {
		r.renamed[filepath.Base(op.NewName)[:3]]++
	}
	if cutChances[op.Kind] > 0 && len(r.cuts) < r.most {
		where := fmt.Sprintf("before operation %d, %s %s", r.ops, op.Kind, op.Name)
		for range r.every {
			r.cutLocked(where)
		}
		if op.Kind == vfs.OpSyncDir && r.every > 0 { // which of the new names are kept?
			for range 4 {
				r.powerCutLocked(where, 0.5)
			}
		}
	}
	if r.rnd.Float64() < cutChances[op.Kind]*r.density && len(r.cuts) < r.most {
		r.cutLocked(fmt.Sprintf("before operation %d, %s %s", r.ops, op.Kind, op.Name))
	}
	return nil
}

// cutLocked takes a kill, one time in four, or a power cut.
func (r *cutRun) cutLocked(where string) {
	keep := []float64{0, 0.1, 0.5, 0.9, 1}[r.rnd.IntN(5)]
	if r.rnd.IntN(4) > 0 {
		r.powerCutLocked(where, keep)
		return
	}
	c := r.now
	c.where = fmt.Sprintf("%s, kill %d %s", r.where, len(r.cuts), where)
	c.fs, c.killed, c.least = r.fs.Kill(), true, r.done
	r.noteLocked(c)
}

// powerCutLocked takes a power cut that keeps that part of what is not synced.
func (r *cutRun) powerCutLocked(where string, keep float64) {
	c := r.now
	c.where = fmt.Sprintf("%s, cut %d %s, keep %v", r.where, len(r.cuts), where, keep)
	c.disk, c.least = r.fs.PowerCut(r.rnd, keep), c.acked
	r.noteLocked(c)
}

func (r *cutRun) noteLocked(c powerCut) {
	c.where += fmt.Sprintf(" (commits begun %d, done %d, durable %d)", r.begun, r.done, c.acked)
	c.history = c.history[:r.begun:r.begun]
	c.copies = append([]cutCopy(nil), c.copies...)
	c.inner = r.inner
	r.cuts = append(r.cuts, c)
}

// open opens the database on the file system of the run.
func (r *cutRun) open() {
	db, err := engine.OpenFS(vfs.NewFault(r.fs, r.hook), "db", &r.opts)
	if err != nil {
		r.t.Fatalf("%s: open: %v", r.where, err)
	}
	r.db = db
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.exists = true
}

// program does so many commits and, at the same time, maintenance.
func (r *cutRun) program(rnd *rand.Rand, commits int) {
	side := rand.New(rand.NewPCG(rnd.Uint64(), 2))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				r.maintain(side)
			}
		}
	}()
	for range commits {
		r.commit(rnd)
		if rnd.IntN(20) == 0 {
			r.durable("sync", r.db.Sync)
		}
	}
	close(stop)
	<-stopped
}

// durable runs what makes all commits durable that have returned.
func (r *cutRun) durable(what string, f func(context.Context) error) {
	r.mu.Lock()
	done := r.done
	r.mu.Unlock()
	if err := f(ctx); err != nil {
		r.t.Errorf("%s: %s: %v", r.where, what, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.acked = max(r.now.acked, done)
}

// maintain does one step of what is not a commit.
func (r *cutRun) maintain(rnd *rand.Rand) {
	switch rnd.IntN(4) {
	case 0:
		r.durable("flush", r.db.Flush)
	case 1:
		r.durable("compact", r.db.Compact)
	case 2:
		r.property()
	case 3:
		r.checkpoint()
	}
}

func (r *cutRun) property() {
	r.mu.Lock()
	r.now.propMax++
	n := r.now.propMax
	r.mu.Unlock()
	value := append(binary.BigEndian.AppendUint32(nil, uint32(n)), make([]byte, r.padding)...)
	if err := r.db.SetProperty("n", value); err != nil {
		r.t.Errorf("%s: property: %v", r.where, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.propMin = n
}

func (r *cutRun) checkpoint() {
	r.mu.Lock()
	if len(r.now.copies) == 3 {
		r.mu.Unlock()
		return
	}
	i := len(r.now.copies)
	c := cutCopy{dir: fmt.Sprintf("%s/%d", r.dir, i), lo: r.done}
	r.now.copies = append(r.now.copies, c)
	r.mu.Unlock()
	if err := r.db.Checkpoint(ctx, c.dir); err != nil {
		r.t.Errorf("%s: checkpoint: %v", r.where, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.acked = max(r.now.acked, c.lo) // a checkpoint flushes
	r.now.copies[i].done, r.now.copies[i].hi = true, r.begun
}

// commit does one commit, at a random level.
func (r *cutRun) commit(rnd *rand.Rand) {
	r.mu.Lock()
	n := r.begun + 1
	ops := r.draw(rnd, n)
	r.now.history = append(r.now.history[:r.begun:r.begun], ops)
	r.begun = n
	r.mu.Unlock()
	o := &engine.WriteOptions{Durability: engine.Process}
	if rnd.IntN(4) == 0 {
		o.Durability = engine.Sync
	}
	transaction := len(ops) > 1 && rnd.IntN(3) == 0
	if transaction {
		o.Durability = r.opts.Durability
	}
	if err := r.write(ops, o, transaction); err != nil {
		r.t.Errorf("%s: commit %d: %v", r.where, n, err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = n
	if o.Durability == engine.Sync {
		r.now.acked = n
	}
}

// draw makes commit n, whose values all name it.
func (r *cutRun) draw(rnd *rand.Rand, n int) (ops []cutOp) {
	size := rnd.IntN(300)
	if r.large && rnd.IntN(3) > 0 {
		size = rnd.IntN(200 << 10)
	}
	value := fmt.Sprintf("%d %s", n, strings.Repeat(string(rune('a'+n%26)), size))
	count := 1
	if rnd.IntN(2) == 0 {
		count += rnd.IntN(6)
	}
	for i := range count {
		o := cutOp{pk: fmt.Sprintf("p%d", rnd.IntN(8)), sk: fmt.Sprintf("s%02d", rnd.IntN(30))}
		switch rnd.IntN(10) {
		case 0, 1:
			o.kind = 'd'
		case 2:
			o.kind, o.sk = 'r', o.sk[:1+rnd.IntN(2)]
		default:
			o.kind, o.value = 'p', value
			if i > 0 {
				o.value = value[:min(len(value), 100)] // one large value is enough
			}
		}
		ops = append(ops, o)
	}
	return ops
}

// write commits the operations: one by itself, more as a batch or a transaction.
func (r *cutRun) write(ops []cutOp, o *engine.WriteOptions, transaction bool) error {
	if first := ops[0]; len(ops) == 1 {
		switch k := pksk(first.pk, first.sk); first.kind {
		case 'p':
			return r.db.Put(k, []byte(first.value), o)
		case 'd':
			return r.db.Delete(k, o)
		}
		sk := engine.SKBeginsWith([]byte(first.sk))
		return r.db.DeleteRange([]byte(first.pk), sk, o)
	}
	if transaction {
		return r.db.Update(ctx, func(tx *engine.Tx) error {
			return writeOps(tx.Put, tx.Delete, tx.DeleteRange, ops)
		})
	}
	b := engine.NewBatch()
	if err := writeOps(b.Put, b.Delete, b.DeleteRange, ops); err != nil {
		return err
	}
	return r.db.Apply(ctx, b, o)
}

// writeOps adds the operations to a batch or a transaction.
func writeOps(
	put func(engine.Key, []byte, time.Duration) error, del func(engine.Key) error,
	delRange func([]byte, engine.SKCondition) error, ops []cutOp,
) (err error) {
	for _, o := range ops {
		switch {
		case err != nil:
		case o.kind == 'p':
			err = put(pksk(o.pk, o.sk), []byte(o.value), 0)
		case o.kind == 'd':
			err = del(pksk(o.pk, o.sk))
		default:
			err = delRange([]byte(o.pk), engine.SKBeginsWith([]byte(o.sk)))
		}
	}
	return err
}
