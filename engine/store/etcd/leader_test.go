package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/etcd"
	"github.com/kstonedb/kstone/internal/testutil"
)

// register is an operation on one key: a read, a write, or a write if it has a certain value.
type register struct {
	key, kind int // kinds: 0 reads, 1 writes, 2 writes under a condition
	from, to  int // values; 0 means no value
}

// result is what an operation has returned.
type result struct {
	value   int
	failed  bool // the condition
	unknown bool
}

var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[int][]porcupine.Operation{}
		for _, op := range history {
			k := op.Input.(register).key
			byKey[k] = append(byKey[k], op)
		}
		var out [][]porcupine.Operation
		for _, ops := range byKey {
			out = append(out, ops)
		}
		return out
	},
	Init: func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		in, out, value := input.(register), output.(result), state.(int)
		switch {
		case in.kind == 0:
			return out.value == value, state
		case in.kind == 1:
			return true, in.to
		case out.unknown && in.from != value:
			return true, state // it has failed, unseen
		}
		if (in.from == value) == out.failed {
			return false, state
		}
		if out.failed {
			return true, state
		}
		return true, in.to
	},
}

// Histories of clients are linearizable while the leader is killed again and again; nothing that
// was acknowledged is lost, and what is unknown is there as a whole or not at all.
//
// Promise (reads and writes): etcd stays linearizable, and keeps what it has acknowledged, while
// its leader is killed again and again.
func TestLeaderKilled(t *testing.T) {
	const clients, keys, members = 6, 5, 3
	cluster := start(t, members, nil)
	rnd, rounds := testutil.Rand(t), testutil.Effort(3, 30)
	stop := make(chan struct{})
	histories := make([][]porcupine.Operation, clients)
	inserted := make([]map[string]error, clients)
	begun := time.Now()
	var wg sync.WaitGroup
	for i := range clients {
		s, err := etcd.Open(ctx, cluster.URL("leader"))
		ok(t, err)
		t.Cleanup(func() { _ = s.Close() })
		seed := rnd.Uint64()
		inserted[i] = map[string]error{}
		wg.Go(func() {
			for n := 1; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				h := uint64(n)*0x9e3779b97f4a7c15 ^ seed
				in := register{key: int(h>>8&0xff) % keys, kind: int(h>>32&0xff) % 3,
					to: n*clients + i + 1}
				op := porcupine.Operation{ClientId: i, Call: time.Since(begun).Nanoseconds()}
				if record(t, s, in, &op, begun) {
					histories[i] = append(histories[i], op)
				}
				name := fmt.Sprintf("%d/%d", i, n)
				inserted[i][name] = insert(s, name)
			}
		})
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for range rounds {
		<-second.C
		leader := cluster.Leader()
		if leader < 0 {
			continue
		}
		cluster.Kill(leader)
		<-second.C
		ok(t, cluster.Run(leader))
	}
	<-second.C
	close(stop)
	wg.Wait()
	checkInserted(t, open(t, cluster, "leader"), inserted)
	var history []porcupine.Operation
	unknown := 0
	for _, ops := range histories {
		for _, op := range ops {
			if history = append(history, op); op.Output.(result).unknown {
				unknown++
			}
		}
	}
	t.Logf("%d operations, %d of them with an unknown outcome", len(history), unknown)
	if porcupine.CheckOperationsTimeout(registers, history, time.Minute) != porcupine.Ok {
		t.Errorf("the history of %d operations is not linearizable", len(history))
	}
}

// record carries out an operation, and completes its record. It reports whether the operation may
// have read or written something.
func record(
	t *testing.T, s *etcd.Store, in register, op *porcupine.Operation, begun time.Time,
) bool {
	out := do(t, s, &in)
	op.Input, op.Output, op.Return = in, out, time.Since(begun).Nanoseconds()
	if out.unknown {
		op.Return = math.MaxInt64 // it may take effect at any time
	}
	return in.kind != 0 || !out.unknown
}

// do carries out an operation on a register. It sets from to what it has read for the condition.
func do(t *testing.T, s *etcd.Store, in *register) (out result) {
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	k := key("register", strconv.Itoa(in.key))
	value, err := s.Get(short, nil, k)
	if in.kind == 0 || in.kind == 2 {
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			in.kind = 0 // nothing was written
			return result{unknown: true}
		}
		out.value, _ = strconv.Atoi(string(value))
	}
	var w store.WriteSet
	to := []byte(strconv.Itoa(in.to))
	switch in.kind {
	case 0:
		return out
	case 1:
		w.Put(k, to)
	default:
		in.from = out.value
		cond := store.ValueIs(value)
		if out.value == 0 {
			cond = store.Absent()
		}
		w.PutIf(k, to, cond)
	}
	err = s.Commit(short, &w)
	switch {
	case errors.Is(err, store.ErrConditionFailed):
		out.failed = true
	case errors.Is(err, store.ErrUnknown):
		out.unknown = true
	case errors.Is(err, context.DeadlineExceeded): // reading has taken all of the time
		in.kind = 0
		return result{unknown: true}
	case err != nil:
		t.Errorf("commit: %v", err)
	}
	return out
}

// insert commits a row and its entry.
func insert(s *etcd.Store, name string) error {
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var w store.WriteSet
	w.PutIf(key("rows", name), nil, store.Absent())
	w.Put(key("entries", name), nil)
	return s.Commit(short, &w)
}

// checkInserted checks that rows and entries are those of all inserts that were acknowledged, and
// of some whose outcome is unknown.
func checkInserted(t *testing.T, s *etcd.Store, inserted []map[string]error) {
	t.Helper()
	there := map[string]int{}
	rows := store.Partitions([][]byte{[]byte("entries"), []byte("rows")})
	for it, err := range s.Scan(ctx, rows) {
		ok(t, err)
		there[string(it.Key.SK)]++
	}
	acknowledged, unknown := 0, 0
	for _, names := range inserted {
		for name, err := range names {
			n := there[name]
			switch {
			case err == nil:
				if acknowledged++; n != 2 {
					t.Errorf("%d of 2 items of %s, which was acknowledged", n, name)
				}
			case errors.Is(err, store.ErrUnknown):
				if unknown++; n == 1 {
					t.Errorf("1 of 2 items of %s", name)
				}
			default:
				t.Errorf("insert %s: %v", name, err)
			}
		}
	}
	t.Logf("%d inserts were acknowledged, %d have an unknown outcome", acknowledged, unknown)
}
