package engine_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
)

// A register is one key: what linearizability is checked for. Histories of registers
// are checked by porcupine, one register at a time.
type register struct {
	there  bool
	value  string
	newest uint64 // the highest version among the writes so far of which one is known
}

// regKind says what an operation does to a register.
type regKind uint8

const (
	regGet     regKind = iota // returns the register
	regHas                    // returns whether something is there
	regPut                    // writes arg
	regDelete                 // removes
	regAbsent                 // writes arg if nothing is there
	regIf                     // writes arg if the value is want
	regDelIf                  // removes if something is there
	regDelSame                // removes if the value is want
	regUpdate                 // returns the register, then writes arg, at once
	regTake                   // returns the register, then removes, at once
)

var regNames = [...]string{
	"get", "has", "put", "delete", "put-absent", "put-if", "delete-if", "delete-same", "update",
	"take",
}

// regInput is an operation. Version is that of what it writes, 0 if nobody has seen it.
type regInput struct {
	kind      regKind
	key       int
	arg, want string
	version   uint64
}

// regOutput is what the caller got: what he has read, or that the condition failed.
type regOutput struct {
	was    sight
	failed bool
}

// sight is what a reader sees of a register. Version is 0 if it was not asked for.
type sight struct {
	there   bool
	value   string
	version uint64
}

// registers is the sequential specification.
var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[int][]porcupine.Operation{}
		for _, op := range history {
			k := op.Input.(regInput).key
			byKey[k] = append(byKey[k], op)
		}
		var parts [][]porcupine.Operation
		for _, p := range byKey {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return register{} },
	Step: func(state, input, output any) (bool, any) {
		return input.(regInput).step(state.(register), output.(regOutput))
	},
	DescribeOperation: func(input, output any) string {
		in, out := input.(regInput), output.(regOutput)
		return fmt.Sprintf("%s %d %q %q: %+v", regNames[in.kind], in.key, in.arg, in.want, out)
	},
}

// step reports whether the operation may give that output in that state, and the next
// state.
func (in regInput) step(s register, out regOutput) (bool, register) {
	gone := register{newest: s.newest}
	put := register{true, in.arg, max(s.newest, in.version)}
	inOrder := in.version == 0 || in.version > s.newest
	same := s.there && s.value == in.want
	seen := out.was.there == s.there && (!s.there || out.was.value == s.value)
	write := func(holds, inOrder bool, next register) (bool, register) {
		if !holds {
			return out.failed, s
		}
		return !out.failed && inOrder, next
	}
	switch in.kind {
	case regGet:
		return seen, s
	case regHas:
		return out.was.there == s.there, s
	case regDelete:
		return true, gone
	case regAbsent:
		return write(!s.there, inOrder, put)
	case regIf:
		return write(same, inOrder, put)
	case regDelIf:
		return write(s.there, true, gone)
	case regDelSame:
		return write(same, true, gone)
	case regUpdate:
		return seen && inOrder, put
	case regTake:
		return seen, gone
	}
	return inOrder, put
}

// Goal: single keys are linearizable: whatever is read, written and compared at the same
// time behaves as if each call had taken effect at one moment between its beginning and
// its end; snapshots show that of the moment when they were taken. Method: many
// goroutines work on few keys, with every call there is: alone, in batches that touch each
// key several times, in transactions. Meanwhile flushes and merges go on, and the
// database is closed and opened in between; porcupine looks for such moments.
//
// Promise (reads and writes): Single keys are linearizable, by every call, in batches and
// transactions too; snapshots contain every commit acknowledged before. Also
// `TestNothingIsSeenWithinACommit`.
func TestSingleKeysAreLinearizable(t *testing.T) {
	rounds, calls := testutil.Effort(4, 8), min(150, testutil.Effort(60, 150))
	seed := testutil.Seed(t)
	total := 0
	for round := range rounds {
		r := &regRun{t: t}
		fsys := vfs.NewMem()
		for phase := range 3 {
			r.db = openOn(t, fsys, engine.Options{
				Durability: engine.Process, FlushRecords: []int{2, 1, 0, 10}[round%4], MaxRuns: 2,
				CacheBytes: 1 << 20,
			})
			r.phase(calls, rand.New(rand.NewPCG(seed, uint64(round*3+phase))))
			mustClose(t, r.db)
		}
		total += r.check(t)
	}
	t.Logf("%d operations", total)
}

// Goal: there is no moment within a commit, and nothing of it after Get has returned what
// was there before it. Method: as above, without what takes long: commits that remove a
// register and write it again follow each other closely, beside readers that do nothing
// else, and of what they read only changes are noted.
func TestNothingIsSeenWithinACommit(t *testing.T) {
	rounds, calls := testutil.Effort(4, 8), testutil.Effort(1500, 6000)
	seed := testutil.Seed(t)
	total := 0
	for round := range rounds {
		r := &regRun{t: t, db: openMemory(t, engine.Options{
			Durability: engine.Process, FlushRecords: []int{0, 0, 0, 1}[round%4], MaxRuns: 2,
		})}
		var readers sync.WaitGroup
		var done atomic.Bool
		for n := range 2 {
			c := r.client(1+n, 1, nil)
			readers.Go(func() {
				c.watch(&done, n == 1)
				c.done()
			})
		}
		writer := r.client(0, 1, rand.New(rand.NewPCG(seed, uint64(round))))
		for range calls {
			writer.call(rewrite)
		}
		writer.done()
		done.Store(true)
		readers.Wait()
		total += r.check(t)
	}
	t.Logf("%d operations", total)
}

// phase runs the clients, and flushes and merges as long as they work.
func (r *regRun) phase(calls int, rnd *rand.Rand) {
	const clients, keys, callsEach = 6, 3, 40
	var wg, side sync.WaitGroup
	stop := make(chan struct{})
	side.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			err := r.db.Flush(ctx)
			if n%3 == 2 {
				err = r.db.Compact(ctx)
			}
			if err != nil {
				r.t.Error(err)
			}
		}
	})
	for n := range clients {
		c := r.client(n, keys, rand.New(rand.NewPCG(rnd.Uint64(), uint64(n))))
		wg.Go(func() {
			for i := range calls {
				c.advance(r.before+i, callsEach)
				c.call(regCalls[c.rnd.IntN(len(regCalls))])
			}
			c.done()
		})
	}
	wg.Wait()
	close(stop)
	side.Wait()
	r.before += calls
}

func wantLinearizable(t *testing.T, history []porcupine.Operation, want bool) {
	t.Helper()
	got := porcupine.CheckOperationsTimeout(registers, history, 2*time.Minute)
	if got == porcupine.Unknown {
		t.Fatalf("no answer for %d operations", len(history))
	}
	if (got == porcupine.Ok) != want {
		t.Fatalf("history of %d operations: %v, want linearizable %v", len(history), got, want)
	}
}

// The check itself: histories that no register can have are refused, and such as only
// concurrency explains are accepted.
//
// Promise (tests): The checks of histories see every anomaly, the programs a wrong answer; the
// reduction leaves the cause. Also `TestSerializabilityCheckSeesAnomalies`,
// `TestProgramsNoticeWrongAnswers`, `TestReduceFindsTheCause`.
func TestLinearizabilityCheckSeesAnomalies(t *testing.T) {
	for name, c := range regAnomalies() {
		t.Run(name, func(t *testing.T) { wantLinearizable(t, c.history, c.want) })
	}
}

type regCase struct {
	want    bool
	history []porcupine.Operation
}

// versioned is op as a write of which the version is known.
func versioned(op porcupine.Operation, version uint64) porcupine.Operation {
	in := op.Input.(regInput)
	in.version = version
	op.Input = in
	return op
}

func regAnomalies() map[string]regCase {
	op := func(call, ret int64, kind regKind, arg, want string, out regOutput) porcupine.Operation {
		in := regInput{kind: kind, arg: arg, want: want}
		return porcupine.Operation{Input: in, Output: out, Call: call, Return: ret}
	}
	was := func(v string) regOutput { return regOutput{was: sight{there: v != "", value: v}} }
	done, failed := regOutput{}, regOutput{failed: true}
	put := func(call, ret int64, v string) porcupine.Operation {
		return op(call, ret, regPut, v, "", done)
	}
	get := func(call, ret int64, v string) porcupine.Operation {
		return op(call, ret, regGet, "", "", was(v))
	}
	return map[string]regCase{
		"read in order": {true, []porcupine.Operation{put(1, 2, "a"), get(3, 4, "a")}},
		"read of both": {true, []porcupine.Operation{
			put(1, 9, "a"), get(2, 3, ""), get(4, 5, "a"),
		}},
		"stale read": {false, []porcupine.Operation{
			put(1, 2, "a"), put(3, 4, "b"), get(5, 6, "a"),
		}},
		"lost write":        {false, []porcupine.Operation{put(1, 2, "a"), get(3, 4, "")}},
		"value from future": {false, []porcupine.Operation{get(1, 2, "a"), put(3, 4, "a")}},
		"read goes back": {false, []porcupine.Operation{
			put(1, 2, "a"), put(3, 9, "b"), get(4, 5, "b"), get(6, 7, "a"),
		}},
		"deleted comes back": {false, []porcupine.Operation{
			put(1, 2, "a"), op(3, 4, regDelete, "", "", done), get(5, 6, "a"),
		}},
		"two winners": {false, []porcupine.Operation{
			op(1, 5, regAbsent, "a", "", done), op(2, 6, regAbsent, "b", "", done),
		}},
		"one winner": {true, []porcupine.Operation{
			op(1, 5, regAbsent, "a", "", done), op(2, 6, regAbsent, "b", "", failed),
		}},
		"condition held twice": {false, []porcupine.Operation{
			put(1, 2, "a"), op(3, 8, regIf, "b", "a", done), op(4, 9, regIf, "c", "a", done),
		}},
		"failed without reason": {false, []porcupine.Operation{
			put(1, 2, "a"), op(3, 4, regIf, "b", "a", failed),
		}},
		"lost update": {false, []porcupine.Operation{
			put(1, 2, "a"), op(3, 8, regUpdate, "b", "", was("a")),
			op(4, 9, regUpdate, "c", "", was("a")),
		}},
		"taken twice": {false, []porcupine.Operation{
			put(1, 2, "a"), op(3, 8, regTake, "", "", was("a")),
			op(4, 9, regTake, "", "", was("a")),
		}},
		"taken by one": {true, []porcupine.Operation{
			put(1, 2, "a"), op(3, 8, regTake, "", "", was("a")), op(4, 9, regTake, "", "", was("")),
		}},
		"away within a commit": {false, []porcupine.Operation{
			put(1, 2, "a"), put(3, 8, "b"), op(4, 5, regHas, "", "", was("")),
		}},
		"removed and compared": {false, []porcupine.Operation{
			put(1, 2, "a"), op(3, 4, regDelSame, "", "b", done),
		}},
		"versions in order": {true, []porcupine.Operation{
			versioned(put(1, 2, "a"), 5), versioned(put(3, 4, "b"), 6), get(5, 6, "b"),
		}},
		"versions go back": {false, []porcupine.Operation{
			versioned(put(1, 2, "a"), 6), versioned(put(3, 4, "b"), 5), get(5, 6, "b"),
		}},
		"versions tell the order": {false, []porcupine.Operation{
			versioned(put(1, 9, "a"), 6), versioned(put(2, 8, "b"), 5), get(10, 11, "b"),
		}},
	}
}
