package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	client "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
)

// maxAttempts bounds how often Commit compares revisions that others have changed meanwhile.
const maxAttempts = 8

// Commit implements store.Writer.
func (s *Store) Commit(ctx context.Context, w *store.WriteSet) error {
	if err := cmp.Or(s.CheckCall(ctx), w.Validate(s.Limits())); err != nil {
		return err
	}
	return s.commit(ctx, w, s.Layout.NewBatch(w))
}

// commit sends the batch as one transaction, which returns the pairs of the conditions if a
// comparison fails.
//
// Comparisons do not know what has expired. So those of the first attempt hold for items without
// expiry only; if one fails though its condition holds, the next attempt compares the revisions
// that were returned.
func (s *Store) commit(ctx context.Context, w *store.WriteSet, b *remote.Batch) error {
	if len(b.Writes)+len(b.Conds) == 0 {
		return nil
	}
	ctx, cancel := s.Within(ctx)
	defer cancel()
	compare, puts, gets := comparisons(b), s.writes(b.Writes), conditionReads(b)
	if err := s.checkSize(compare, puts, gets); err != nil {
		return err
	}
	for range maxAttempts {
		pairs, err := s.transact(ctx, compare, puts, gets)
		if err != nil || pairs == nil {
			return err
		}
		if err := b.Check(w, pairs, s.Now()); err != nil {
			return err
		}
		compare = compare[:0]
		for i := range pairs {
			key, rev := string(b.Conds[i].Key), int64(pairs[i].Version)
			compare = append(compare, client.Compare(client.ModRevision(key), "=", rev))
		}
	}
	return fmt.Errorf("etcd: commit: %w: others have changed its keys %d times", store.ErrConflict,
		maxAttempts)
}

// transact sends one transaction. It returns nil pairs if it was carried out, and else what gets
// has read.
func (s *Store) transact(
	ctx context.Context, compare []client.Cmp, puts, gets []client.Op,
) ([]remote.Pair, error) {
	defer store.BeginRequest(ctx)()
	resp, err := s.c.Txn(ctx).If(compare...).Then(puts...).Else(gets...).Commit()
	if err != nil {
		return nil, s.outcome(ctx, err)
	}
	if resp.Succeeded {
		return nil, nil
	}
	pairs := make([]remote.Pair, len(gets))
	for i := range gets {
		if kvs := resp.Responses[i].GetResponseRange().Kvs; len(kvs) > 0 {
			pairs[i] = pair(kvs[0])
		}
	}
	return pairs, nil
}

// comparisons returns what the conditions compare. A value below 01 is one without expiry.
func comparisons(b *remote.Batch) []client.Cmp {
	const plainBelow = "\x01"
	out := make([]client.Cmp, 0, len(b.Conds))
	for i := range b.Conds {
		c := &b.Conds[i]
		key := string(c.Key)
		switch c.Kind {
		case store.CondAbsent:
			out = append(out, client.Compare(client.CreateRevision(key), "=", 0))
		case store.CondPresent:
			out = append(out, client.Compare(client.Value(key), "<", plainBelow))
		case store.CondValue:
			out = append(out,
				client.Compare(client.Value(key), "=", string(remote.AppendValue(nil, c.Value, 0))))
		case store.CondVersion:
			rev := int64(-1) // no item has a version that is not positive
			if c.Version > 0 && c.Version <= math.MaxInt64 {
				rev = int64(c.Version)
			}
			out = append(out, client.Compare(client.ModRevision(key), "=", rev),
				client.Compare(client.Value(key), "<", plainBelow))
		}
	}
	return out
}

// writes returns the operations that write. One that deletes leaves a trace: see tx.go.
func (s *Store) writes(all []remote.Write) []client.Op {
	out := make([]client.Op, len(all), len(all)+ownOps)
	deletes := false
	for i, w := range all {
		if w.Value == nil {
			out[i], deletes = client.OpDelete(string(w.Key)), true
		} else {
			out[i] = client.OpPut(string(w.Key), string(w.Value))
		}
	}
	if deletes {
		out = append(out, client.OpPut(string(s.Layout.TraceKey()), ""))
	}
	return out
}

func conditionReads(b *remote.Batch) []client.Op {
	out := make([]client.Op, len(b.Conds))
	for i := range b.Conds {
		out[i] = client.OpGet(string(b.Conds[i].Key))
	}
	return out
}

// checkSize refuses what a server would refuse, with what to do. What a limit of the store allows
// may still be too large: a condition on a version takes two comparisons, and zero bytes of
// partition keys are written as two.
func (s *Store) checkSize(compare []client.Cmp, puts, gets []client.Op) error {
	const perPart, perRequest = 32, 1 << 10 // more than lengths and tags take
	n := perRequest + perPart*(len(compare)+len(puts)+len(gets))
	for i := range compare {
		n += len(compare[i].KeyBytes()) + len(compare[i].ValueBytes())
	}
	for _, ops := range [][]client.Op{puts, gets} {
		for i := range ops {
			n += len(ops[i].KeyBytes()) + len(ops[i].ValueBytes())
		}
	}
	switch {
	case len(compare) > s.o.txnOps():
		return fmt.Errorf("%w: etcd: the conditions take %d comparisons, limit is %d: "+
			"make the write set smaller", store.ErrTooLarge, len(compare), s.o.txnOps())
	case n > maxRequestBytes:
		return fmt.Errorf("%w: etcd: the transaction has about %d bytes, limit is %d: "+
			"make the write set smaller", store.ErrTooLarge, n, maxRequestBytes)
	}
	return nil
}

// outcome gives the error of a commit its class. The client does not send a transaction again that
// may have reached a member, and neither does the store: what has not been refused is unknown.
func (s *Store) outcome(ctx context.Context, err error) error {
	failed := s.failure(ctx, "commit", err)
	if remedy, class := classOf(err); class != nil || remedy != "" || refused(err) {
		return failed
	}
	return fmt.Errorf("%w: %w", store.ErrUnknown, failed)
}

// refused reports whether a member has answered that it has not taken the transaction.
func refused(err error) bool {
	if errors.Is(err, client.ErrNoAvailableEndpoints) {
		return true
	}
	var e rpctypes.EtcdError
	if !errors.As(rpctypes.Error(err), &e) {
		return status.Code(err) == codes.InvalidArgument
	}
	switch e.Code() {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.PermissionDenied,
		codes.Unauthenticated, codes.ResourceExhausted:
		return true
	}
	return false
}
