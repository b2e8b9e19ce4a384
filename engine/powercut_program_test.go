package engine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/kstonedb/kstone/engine"
)

// cutOp is one operation of a commit: put, delete, or delete of all sort keys that begin
// with sk or that come after it, or of everything from a key on.
type cutOp struct {
	kind   byte   // 'p', 'd', 'r', 'g', 'x'
	pk, sk string // as cutKey takes them
	bytes  int    // of the value, beside what names the commit
	value  string // set when the commit is done
}

// cutHistory holds the commits in the order of one writer.
type cutHistory [][]cutOp

// cutKey returns the key of a name: the name or, of a name that ends with ~, the longest key
// of its first byte, where 0 stands for 00 and f for FF.
func cutKey(name string) string {
	if !strings.HasSuffix(name, "~") {
		return name
	}
	switch b := name[:1]; b {
	case "0":
		return longParts[0]
	case "f":
		return repeat("\xff", 0)
	default:
		return repeat(b, 0)
	}
}

// key returns the key of an operation.
func (o *cutOp) key() engine.Key { return pksk(cutKey(o.pk), cutKey(o.sk)) }

// apply does commit n (from 1) to a state.
func (h cutHistory) apply(n int, state map[string]string) {
	for _, o := range h[n-1] {
		part := cutKey(o.pk) + "/"
		switch k := part + cutKey(o.sk); o.kind {
		case 'p':
			state[k] = o.value
		case 'd':
			delete(state, k)
		case 'r':
			maps.DeleteFunc(state, func(at, _ string) bool { return strings.HasPrefix(at, k) })
		case 'x':
			maps.DeleteFunc(state, func(at, _ string) bool {
				pk, sk, _ := strings.Cut(at, "/")
				return compareKeys(pksk(pk, sk), o.key()) >= 0
			})
		case 'g':
			maps.DeleteFunc(state, func(at, _ string) bool {
				return strings.HasPrefix(at, part) && at > k
			})
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

// cutStep is one step of a program. A program that has lost other steps stays one.
type cutStep struct {
	kind byte // see cutWords
	// beside: at the same time as the steps after it. Such steps come one after the other.
	beside bool

	id   int     // of a commit: all its values name it
	ops  []cutOp // of a commit
	sync bool    // of a commit: at Sync, not at Process
	tx   bool    // of a commit: a transaction, at the level of the database
}

// cutWords are the kinds of steps. Merge is of everything, reopen closes before.
var cutWords = map[byte]string{
	'c': "commit", 'f': "flush", 'm': "merge", 'p': "property", 'k': "checkpoint", 's': "sync",
	'o': "reopen",
}

// cutStage is what a process does: it opens the database, does the steps, and closes.
type cutStage struct {
	opts engine.Options
	// padding makes the property larger, so that the manifest is soon written again.
	padding int
	steps   []cutStep
}

// cutOptions draws options that make flushes, merges and recycling frequent.
func cutOptions(rnd *rand.Rand) engine.Options {
	o := baseCutOptions
	o.Durability = engine.Sync + engine.Durability(rnd.IntN(2))
	o.FlushRecords, o.MaxRuns = []int{0, 1, 3, 10}[rnd.IntN(4)], 2+rnd.IntN(2)
	return o
}

// baseCutOptions are those of all stages.
var baseCutOptions = engine.Options{
	MemtableBytes: 1 << 20, LogBytes: 8 << 20, CacheBytes: 1 << 20, MaxOpenFiles: 16,
	BlockBytes: 1 << 10, FileBytes: 64 << 10, Compression: engine.NoCompression,
}

// drawProgram draws a program of many commits, with maintenance beside them nearly all
// the time.
func drawProgram(rnd *rand.Rand) cutStage {
	s := cutStage{opts: cutOptions(rnd)}
	large := rnd.IntN(3) == 0
	for id := range 20 + rnd.IntN(100) {
		if rnd.IntN(4) == 0 {
			s.steps = append(s.steps, drawMaintenance(rnd, true))
		}
		s.steps = append(s.steps, drawCommit(rnd, id+1, large))
		if rnd.IntN(20) == 0 {
			s.steps = append(s.steps, cutStep{kind: 's'})
		}
		if rnd.IntN(50) == 0 {
			s.steps = append(s.steps, cutStep{kind: 'o'})
		}
	}
	return s
}

// drawRecovery draws the few steps of a process that finds what a cut has left; level is
// the number of cuts so far.
func drawRecovery(rnd *rand.Rand, level int) cutStage {
	s := cutStage{opts: cutOptions(rnd)}
	for i := range rnd.IntN(8) {
		s.steps = append(s.steps, drawCommit(rnd, 1000*level+i+1, false))
	}
	s.steps = append(s.steps, drawMaintenance(rnd, false))
	return s
}

func drawMaintenance(rnd *rand.Rand, beside bool) cutStep {
	return cutStep{kind: "fmpk"[rnd.IntN(4)], beside: beside}
}

// drawCommit draws a commit; large makes values that fill log segments, and long keys.
func drawCommit(rnd *rand.Rand, id int, large bool) cutStep {
	s := cutStep{kind: 'c', id: id}
	size := rnd.IntN(300)
	if large && rnd.IntN(3) > 0 {
		size = rnd.IntN(200 << 10)
	}
	count := 1
	if rnd.IntN(2) == 0 {
		count += rnd.IntN(6)
	}
	for i := range count {
		o := cutOp{pk: fmt.Sprintf("p%d", rnd.IntN(8)), sk: fmt.Sprintf("s%02d", rnd.IntN(30))}
		if draw := chooseFrom(rnd); large && draw.oneIn(longKeyOneIn) {
			o.pk = []string{"0~", "p~"}[rnd.IntN(2)]
		} else if large && draw.oneIn(longKeyOneIn/2) {
			o.sk = []string{"0~", "f~", "s~"}[rnd.IntN(3)]
		}
		switch rnd.IntN(11) {
		case 0, 1:
			o.kind = 'd'
		case 2:
			o.kind, o.sk = 'r', o.sk[:1+rnd.IntN(2)]
			if rnd.IntN(3) == 0 {
				o.kind, o.pk, o.sk = 'x', "p6", "s15" // a fifth of all
			}
		case 3:
			o.kind = 'g'
			if rnd.IntN(4) > 0 { // more would empty all partitions
				o.sk = []string{"s25", "s28", "0~"}[rnd.IntN(3)]
			}
		default:
			o.kind, o.bytes = 'p', size
			if i > 0 {
				o.bytes = min(size, 100) // one large value is enough
			}
		}
		s.ops = append(s.ops, o)
	}
	s.sync = rnd.IntN(4) == 0
	if count > 1 && rnd.IntN(3) == 0 {
		s.sync, s.tx = false, true
	}
	return s
}

// valued returns the operations of a commit with their values.
func (s *cutStep) valued() []cutOp {
	ops := slices.Clone(s.ops)
	for i := range ops {
		if o := &ops[i]; o.kind == 'p' {
			o.value = fmt.Sprintf("%d %s", s.id, strings.Repeat(string(rune('a'+s.id%26)), o.bytes))
		}
	}
	return ops
}

// write commits the operations: one by itself, more as a batch or a transaction.
func (s *cutStep) write(db *engine.DB, ops []cutOp, o engine.Durability) error {
	if s.tx {
		return db.Update(ctx, func(tx *engine.Tx) error {
			return writeOps(tx, ops)
		}, o)
	}
	if first := ops[0]; len(ops) == 1 {
		switch k := first.key(); first.kind {
		case 'p':
			return db.Put(k, []byte(first.value), o)
		case 'd':
			return db.Delete(k, o)
		case 'x':
			return db.DeleteScan(k, engine.Key{}, o)
		default:
			return db.DeleteRange(k.PK, first.condition(), o)
		}
	}
	b := engine.NewBatch()
	if err := writeOps(b, ops); err != nil {
		return err
	}
	return db.Apply(ctx, b, o)
}

// condition returns that of a range delete.
func (o *cutOp) condition() engine.SKCondition {
	if o.kind == 'g' {
		return engine.SKGreater(o.key().SK)
	}
	return engine.SKBeginsWith(o.key().SK)
}

// writeOps adds the operations to a batch or a transaction.
func writeOps(to progWriter, ops []cutOp) (err error) {
	for _, o := range ops {
		switch {
		case err != nil:
		case o.kind == 'p':
			err = to.Put(o.key(), []byte(o.value))
		case o.kind == 'd':
			err = to.Delete(o.key())
		case o.kind == 'x':
			err = to.DeleteScan(o.key(), engine.Key{})
		default:
			err = to.DeleteRange(o.key().PK, o.condition())
		}
	}
	return err
}
