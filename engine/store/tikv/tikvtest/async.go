package tikvtest

import (
	"sync"
	"sync/atomic"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/tikvrpc"
)

// asyncTxns are the transactions that commit asynchronously, by their start timestamps.
//
// The naive way: the mock rolls a primary lock back that is too old, as in two phases. Why it
// fails: such a transaction has committed as soon as all of it is locked, and the client commits
// the other keys beside the primary one, not after it: half of it would be there. The way taken:
// what is locked as a whole is committed when its locks are too old, as real servers let readers
// find out. What is not is rolled back, and gets no other lock.
type asyncTxns struct {
	turn sync.Mutex // over a prewrite or a question for a status, with what is noted of it
	mu   sync.Mutex
	all  map[uint64]*asyncTxn // Guarded by mu
}

type asyncTxn struct {
	keys map[string]bool // that are locked
	want int             // how many keys there are, 0 before that is known
	ts   uint64          // of the commit, so far
	ttl  uint64
	dead atomic.Bool // it has been rolled back
}

// begin returns what ends the turn of a request.
func (a *asyncTxns) begin(req *tikvrpc.Request) (end func()) {
	if req.Type != tikvrpc.CmdCheckTxnStatus &&
		(req.Type != tikvrpc.CmdPrewrite || !req.Prewrite().UseAsyncCommit) {
		return func() {}
	}
	a.turn.Lock()
	return a.turn.Unlock
}

func (a *asyncTxns) get(start uint64) *asyncTxn {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all[start]
}

// refused returns the answer to a prewrite of a transaction that was rolled back, nil to others.
func (a *asyncTxns) refused(req *tikvrpc.Request) *tikvrpc.Response {
	if req.Type != tikvrpc.CmdPrewrite {
		return nil
	}
	if x := a.get(req.Prewrite().StartVersion); x == nil || !x.dead.Load() {
		return nil
	}
	gone := []*kvrpcpb.KeyError{{Retryable: "rolled back"}}
	return &tikvrpc.Response{Resp: &kvrpcpb.PrewriteResponse{Errors: gone}}
}

func (a *asyncTxns) has(start uint64) bool { return a.get(start) != nil }

// locked notes that a prewrite has locked its keys, to be committed at ts or later.
func (a *asyncTxns) locked(req *kvrpcpb.PrewriteRequest, ts uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[uint64]*asyncTxn{}
	}
	x := a.all[req.StartVersion]
	if x == nil {
		x = &asyncTxn{keys: map[string]bool{}}
		a.all[req.StartVersion] = x
	}
	for _, m := range req.Mutations {
		if m.Op == kvrpcpb.Op_CheckNotExists {
			continue
		}
		x.keys[string(m.Key)] = true
		if string(m.Key) == string(req.PrimaryLock) {
			x.want = 1 + len(req.Secondaries)
		}
	}
	x.ts, x.ttl = max(x.ts, ts), max(x.ttl, req.LockTtl)
}

// overdue returns what commits the primary key that is asked for, if its lock is too old, and all
// of the transaction is locked.
func (a *asyncTxns) overdue(req *tikvrpc.Request) *tikvrpc.Request {
	if req.Type != tikvrpc.CmdCheckTxnStatus {
		return nil
	}
	check := req.CheckTxnStatus()
	x := a.get(check.LockTs)
	if x == nil || uint64(oracle.ExtractPhysical(check.LockTs))+x.ttl >
		uint64(oracle.ExtractPhysical(check.CurrentTs)) {
		return nil
	}
	if x.want == 0 || len(x.keys) < x.want {
		x.dead.Store(true)
	}
	if x.dead.Load() {
		return nil
	}
	return tikvrpc.NewRequest(tikvrpc.CmdCommit, &kvrpcpb.CommitRequest{
		StartVersion: check.LockTs, Keys: [][]byte{check.PrimaryKey}, CommitVersion: x.ts,
	}, req.Context)
}
