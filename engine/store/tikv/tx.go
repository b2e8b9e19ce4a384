package tikv

import (
	"context"
	"fmt"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	client "github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/txnkv/transaction"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
)

// A transaction is one of the cluster that begins at the timestamp of its reads. The cluster
// refuses it if a key that it writes was written since then. Of what it has only read the cluster,
// which isolates snapshots, proves nothing by itself.
//
// Keys that were looked up are locked with the writes: then they are checked like them. Two
// transactions that read one key and write others are in conflict by that, though they need not be.
//
// Ranges. The naive way: read them once more before the commit. Why it fails: two transactions that
// each write into the range of the other both find theirs unchanged, and then both commit. A lock
// does not help: there is no key to lock where nothing is.
//
// The way taken: the writes are locked first, then the timestamp of the commit is taken, and the
// ranges are read once more as of exactly that. Whatever commits before it is seen there: its locks
// were set before it took its own timestamp. A lock of a transaction that is still under way makes
// the read push that one's commit after this one (or wait: it commits asynchronously). Own locks
// are passed over. If a range is what it was, the commit is sent for that timestamp, else it is
// rolled back. If a reader has pushed this transaction meanwhile, the cluster refuses the
// timestamp, the client takes a later one, and the ranges are read for that again. So of two that
// each write into the range of the other, the later one finds the writes of the earlier one.
//
// Such a commit cannot be asynchronous or in one phase, where the servers decide the timestamp. It
// takes four trips: locks, timestamp, ranges, commit. They must not take longer than locks live,
// three seconds: others roll it back then.
//
// A crash after the locks leaves locks, which others roll back after three seconds. A crash after
// the commit of the first key leaves a transaction that others complete.

// maxOwnWaits bounds how often reading a range once more waits for a lock, a tenth of a second
// altogether. Why: the other one may wait for a lock of this transaction.
const maxOwnWaits = 6

// base is the timestamp that a transaction reads.
type base struct {
	s    *Store
	view *view // nil before it is fixed
	txn  *transaction.KVTxn
}

// Begin implements store.Transactor.
func (s *Store) Begin(ctx context.Context, o *store.TxOptions) (store.Tx, error) {
	if err := s.CheckCall(ctx); err != nil {
		return nil, err
	}
	return remote.Begin(s.Reader, &base{s: s}, limits, o)
}

// Update implements store.Transactor.
func (s *Store) Update(ctx context.Context, fn func(store.Tx) error) error {
	return remote.Update(ctx, s.Begin, fn)
}

// fix takes the timestamp. Why the client's transaction begins here: its locks live for three
// seconds more than it took until they are set.
func (b *base) fix(ctx context.Context) error {
	if b.view != nil {
		return b.s.Check()
	}
	ctx, cancel := b.s.Within(ctx)
	defer cancel()
	ts, err := b.s.timestamp(ctx)
	if err != nil {
		return err
	}
	if b.txn, err = b.s.kv.Begin(client.WithStartTS(ts)); err != nil {
		return b.s.failure(ctx, "begin", err)
	}
	b.view = b.s.at(ts)
	return nil
}

// Get implements remote.View.
func (b *base) Get(ctx context.Context, keys [][]byte) ([]remote.Pair, error) {
	if err := b.fix(ctx); err != nil {
		return nil, err
	}
	return b.view.Get(ctx, keys)
}

// Pages implements remote.View.
func (b *base) Pages(ctx context.Context, spans []remote.Span) ([]remote.Page, error) {
	if err := b.fix(ctx); err != nil {
		return nil, err
	}
	return b.view.Pages(ctx, spans)
}

// Commit implements remote.Base.
func (b *base) Commit(ctx context.Context, reads *remote.Reads, writes []remote.Write) error {
	if err := b.fix(ctx); err != nil {
		return err
	}
	ctx, cancel := b.s.Within(ctx)
	defer cancel()
	batch := &remote.Batch{Writes: writes}
	for key := range reads.Keys {
		batch.Conds = append(batch.Conds, remote.Cond{Key: []byte(key)})
	}
	state := &sending{}
	if len(reads.Ranges) > 0 {
		ranges := &remote.Reads{Ranges: reads.Ranges}
		state.allow = func(ts uint64) error {
			holds, err := ranges.Hold(ctx, &view{s: b.s, ts: ts, own: b.view.ts})
			if err == nil && !holds {
				err = fmt.Errorf("tikv: commit: %w: a range that was read was changed",
					store.ErrConflict)
			}
			return err
		}
	}
	return b.s.send(ctx, b.txn, batch, nil, state)
}

// refusal returns the answer to a request that commits at a timestamp which is not allowed, as if
// a server had refused it: the client rolls back then. It returns nil for all others.
func (s *sending) refusal(req *tikvrpc.Request) *tikvrpc.Response {
	if s.allow == nil || req.Type != tikvrpc.CmdCommit ||
		req.Commit().CommitVersion == s.allowed {
		return nil
	}
	ts := req.Commit().CommitVersion
	if s.refused = s.allow(ts); s.refused == nil {
		s.allowed = ts
		return nil
	}
	return &tikvrpc.Response{Resp: &kvrpcpb.CommitResponse{
		Error: &kvrpcpb.KeyError{Retryable: s.refused.Error()},
	}}
}
