package torture

import (
	"fmt"
	"math/rand/v2"

	"github.com/kstonedb/kstone/engine"
)

// kind says what a step does.
type kind uint8

const (
	stepPut kind = iota
	stepDelete
	stepPutIfAbsent
	stepPutIf
	stepDeleteIf
	stepDeleteRange
	stepSync
	stepBatch // from here on: with the worker's counter, in the same commit
	stepUpdate
	stepTransfer
	kinds
)

const (
	// partitions and sorts are the keys of a worker: few, so that steps meet.
	partitions = 6
	sorts      = 24
	// counterEvery is the least often that a worker writes its counter.
	counterEvery = 8
	// accounts and startAmount are the money that transactions move about.
	accounts    = 16
	startAmount = 1000
)

// step is one operation of a worker's program, computed from the seed, the worker's
// number and the step's number alone.
type step struct {
	kind    kind
	worker  int
	num     int
	changes []change // put and delete have one; a batch several, in order
	durable bool     // written with Durability Sync
	from    int      // transfer: accounts and amount
	to      int
	amount  int
}

// change is a put, a delete (value nil), or a range delete (to above from).
type change struct {
	key      engine.Key
	value    []byte
	from, to string // sort keys [from, to] of the partition
}

// stepOf returns step num, counted from 1, of a worker.
func stepOf(seed uint64, worker, num int) step {
	rng := rand.New(rand.NewPCG(seed^uint64(worker)<<48, uint64(num)))
	s := step{kind: kind(rng.IntN(int(kinds))), worker: worker, num: num}
	if num%counterEvery == 0 && s.kind < stepBatch {
		s.kind = stepBatch + kind(rng.IntN(int(kinds-stepBatch)))
	}
	s.durable = s.kind == stepSync || rng.IntN(6) == 0
	switch s.kind {
	case stepBatch, stepUpdate:
		for range 1 + rng.IntN(8) {
			s.changes = append(s.changes, s.random(rng, kind(rng.IntN(int(stepSync)))))
		}
	case stepTransfer:
		s.from, s.to, s.amount = rng.IntN(accounts), rng.IntN(accounts), 1+rng.IntN(50)
	case stepSync:
	default:
		s.changes = []change{s.random(rng, s.kind)}
	}
	return s
}

// random returns a change that fits a kind of step.
func (s *step) random(rng *rand.Rand, k kind) change {
	pk := fmt.Appendf(nil, "w%d/%d", s.worker, rng.IntN(partitions))
	sk := fmt.Sprintf("s%02d", rng.IntN(sorts))
	switch k {
	case stepDelete, stepDeleteIf:
		return change{key: engine.Key{PK: pk, SK: []byte(sk)}}
	case stepDeleteRange:
		return change{key: engine.Key{PK: pk}, from: sk, to: fmt.Sprintf("s%02d", rng.IntN(sorts))}
	}
	n := rng.IntN(200)
	switch rng.IntN(40) {
	case 0:
		n = 20_000
	case 1, 2, 3:
		n = 2_000
	}
	value := fmt.Appendf(nil, "worker %d step %d ", s.worker, s.num)
	for i := range n {
		value = append(value, byte('a'+(i*7+s.num)%26))
	}
	return change{key: engine.Key{PK: pk, SK: []byte(sk)}, value: value}
}

// counts reports whether the step writes the worker's counter.
func (s *step) counts() bool { return s.kind >= stepBatch }

func (c *change) isRange() bool { return c.from != "" }

func counterKey(worker int) engine.Key {
	return engine.Key{PK: fmt.Appendf(nil, "w%d", worker), SK: []byte("counter")}
}

func accountKey(n int) engine.Key {
	return engine.Key{PK: fmt.Appendf(nil, "account%d", n)}
}
