package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/vfs"
)

// A register is one key: what linearizability is checked for. Histories of registers
// are checked by porcupine, one register at a time.
type register struct {
	there bool
	value string
}

// regKind says what an operation does to a register.
type regKind uint8

const (
	regGet    regKind = iota // returns the register
	regPut                   // writes arg
	regDelete                // removes
	regAbsent                // writes arg if nothing is there
	regIf                    // writes arg if the value is want
	regDelIf                 // removes if something is there
	regUpdate                // returns the register, then writes arg, at once
	regKinds
)

var regNames = [...]string{
	"get", "put", "delete", "put-absent", "put-if", "delete-if", "update",
}

type regInput struct {
	kind      regKind
	key       int
	arg, want string
}

// regOutput is what the caller got: the register that a get or an update has read, or
// that the condition failed. An operation with an unknown outcome has none of this.
type regOutput struct {
	was    register
	failed bool
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
	put := register{true, in.arg}
	switch in.kind {
	case regGet:
		return out.was == s, s
	case regPut:
		return true, put
	case regDelete:
		return true, register{}
	case regAbsent:
		if s.there {
			return out.failed, s
		}
		return !out.failed, put
	case regIf:
		if !s.there || s.value != in.want {
			return out.failed, s
		}
		return !out.failed, put
	case regDelIf:
		return out.failed != s.there, register{}
	}
	return out.was == s, put
}

// regRun makes a history.
type regRun struct {
	t     *testing.T
	db    *engine.DB
	clock atomic.Int64 // orders calls and returns: a return before a call has a lower time
	next  atomic.Int64 // of values, which are all different

	mu      sync.Mutex
	history []porcupine.Operation
}

func regKey(n int) engine.Key { return pksk(fmt.Sprintf("register#%d", n), "r") }

// client does so many operations on so many registers.
func (r *regRun) client(id, ops, keys int, rnd *rand.Rand) {
	var mine []porcupine.Operation
	seen := make([]string, keys) // last value read, for conditions that may hold
	for range ops {
		in := regInput{kind: regKind(rnd.IntN(int(regKinds))), key: rnd.IntN(keys)}
		if rnd.IntN(3) == 0 {
			in.kind = regGet
		}
		in.arg, in.want = fmt.Sprint(r.next.Add(1)), seen[in.key]
		op := porcupine.Operation{ClientId: id, Input: in, Call: r.clock.Add(1)}
		out, done := r.do(in, rnd)
		op.Output, op.Return = out, r.clock.Add(1)
		if out.was.there {
			seen[in.key] = out.was.value
		}
		if done {
			mine = append(mine, op)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, mine...)
}

// do returns done false for a transaction that lost against another and did nothing.
func (r *regRun) do(in regInput, rnd *rand.Rand) (out regOutput, done bool) {
	k, v := regKey(in.key), []byte(in.arg)
	var err error
	switch in.kind {
	case regGet:
		out.was, err = r.get(k, rnd)
	case regPut:
		err = r.put(k, v, rnd)
	case regDelete:
		err = r.db.Delete(k, nil)
	case regAbsent:
		err = r.db.PutIfAbsent(k, v, nil)
	case regIf:
		err = r.db.PutIf(k, v, engine.IfValue([]byte(in.want)), nil)
	case regDelIf:
		err = r.db.DeleteIf(k, engine.IfPresent(), nil)
	case regUpdate:
		update := r.db.Update
		if rnd.IntN(2) == 0 {
			update = r.db.UpdateRetry
		}
		err = update(ctx, func(tx *engine.Tx) (err error) {
			if out.was, err = found(tx.Get(k)); err != nil {
				return err
			}
			return tx.Put(k, v, 0)
		})
	}
	switch {
	case errors.Is(err, engine.ErrConflict) && in.kind == regUpdate:
		return out, false
	case errors.Is(err, engine.ErrConditionFailed):
		out.failed = true
	case err != nil:
		r.t.Errorf("%s: %v", regNames[in.kind], err)
	}
	return out, true
}

func found(v []byte, err error) (register, error) {
	if errors.Is(err, engine.ErrNotFound) {
		return register{}, nil
	}
	return register{err == nil, string(v)}, err
}

// get reads the register in one of the ways there are.
func (r *regRun) get(k engine.Key, rnd *rand.Rand) (register, error) {
	switch rnd.IntN(5) {
	case 0:
		return found(r.db.AppendGet(nil, k))
	case 1:
		s, err := r.db.Snapshot()
		if err != nil {
			return register{}, err
		}
		defer s.Close()
		return found(s.Get(k))
	case 2:
		for it, err := range r.db.Query(ctx, engine.Query{PK: k.PK, Reverse: rnd.IntN(2) == 0}) {
			return register{err == nil, string(it.Value)}, err
		}
		return register{}, nil
	case 3:
		for it, err := range r.db.Scan(ctx, engine.Scan{Unordered: rnd.IntN(2) == 0}) {
			if err != nil || id(it.Key) == id(k) {
				return register{err == nil, string(it.Value)}, err
			}
		}
		return register{}, nil
	}
	return found(r.db.Get(k))
}

// put writes the register by itself or as a batch, in which only the last of several
// operations on the key counts.
func (r *regRun) put(k engine.Key, v []byte, rnd *rand.Rand) error {
	if rnd.IntN(2) == 0 {
		return r.db.Put(k, v, nil)
	}
	b := engine.NewBatch()
	err := errors.Join(b.Put(k, []byte("never seen"), 0), b.Delete(k))
	if rnd.IntN(2) == 0 {
		err = errors.Join(err, b.DeleteRange(k.PK, engine.SKCondition{}))
	}
	return errors.Join(err, b.Put(k, v, 0), r.db.Apply(ctx, b, nil))
}

// Goal: single keys are linearizable: whatever is read, written and compared at the same
// time behaves as if each call had taken effect at one moment between its beginning and
// its end. Method: many goroutines work on few keys, with every call there is for one
// key, while flushes and merges go on, and the database is closed and opened in between;
// porcupine looks for such moments.
func TestSingleKeysAreLinearizable(t *testing.T) {
	rounds, ops := 6, 150
	if testing.Short() || raceEnabled {
		rounds, ops = 3, 80
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	total := 0
	for round := range rounds {
		r := &regRun{t: t}
		fsys := vfs.NewMem()
		for phase := range 3 {
			r.db = openOn(t, fsys, engine.Options{
				Durability: engine.Process, FlushRecords: []int{0, 2, 10}[round%3], MaxRuns: 2,
				CacheBytes: 1 << 20,
			})
			r.phase(ops, rand.New(rand.NewPCG(seed, uint64(round*3+phase))))
			mustClose(t, r.db)
		}
		total += len(r.history)
		wantLinearizable(t, r.history, true)
	}
	t.Logf("%d operations", total)
}

// phase runs the clients, and flushes and merges as long as they work.
func (r *regRun) phase(ops int, rnd *rand.Rand) {
	const clients, keys = 8, 3
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
	for c := range clients {
		own := rand.New(rand.NewPCG(rnd.Uint64(), uint64(c)))
		wg.Go(func() { r.client(c, ops, keys, own) })
	}
	wg.Wait()
	close(stop)
	side.Wait()
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
func TestLinearizabilityCheckSeesAnomalies(t *testing.T) {
	op := func(call, ret int64, kind regKind, arg, want string, out regOutput) porcupine.Operation {
		in := regInput{kind: kind, arg: arg, want: want}
		return porcupine.Operation{Input: in, Output: out, Call: call, Return: ret}
	}
	put := func(call, ret int64, v string) porcupine.Operation {
		return op(call, ret, regPut, v, "", regOutput{})
	}
	get := func(call, ret int64, v string) porcupine.Operation {
		return op(call, ret, regGet, "", "", regOutput{was: register{v != "", v}})
	}
	done, failed := regOutput{}, regOutput{failed: true}
	for name, c := range map[string]struct {
		want    bool
		history []porcupine.Operation
	}{
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
			put(1, 2, "a"), op(3, 8, regUpdate, "b", "", regOutput{was: register{true, "a"}}),
			op(4, 9, regUpdate, "c", "", regOutput{was: register{true, "a"}}),
		}},
	} {
		t.Run(name, func(t *testing.T) { wantLinearizable(t, c.history, c.want) })
	}
}
