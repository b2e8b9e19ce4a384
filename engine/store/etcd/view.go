package etcd

import (
	"context"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	client "go.etcd.io/etcd/client/v3"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
)

// view reads at a revision: 0 is the newest, which the first answer fixes.
type view struct {
	s   *Store
	rev int64
}

// Get implements remote.View.
func (v *view) Get(ctx context.Context, keys [][]byte) ([]remote.Pair, error) {
	answers, err := v.read(ctx, len(keys), func(i int) client.Op {
		return client.OpGet(string(keys[i]), client.WithRev(v.rev))
	})
	if err != nil {
		return nil, err
	}
	pairs := make([]remote.Pair, len(keys))
	for i, answer := range answers {
		pairs[i].Key = keys[i]
		if len(answer.Kvs) > 0 {
			pairs[i] = pair(answer.Kvs[0])
		}
	}
	return pairs, nil
}

func pair(kv *mvccpb.KeyValue) remote.Pair {
	return remote.Pair{Key: kv.Key, Value: kv.Value, Version: uint64(kv.ModRevision)}
}

// Pages implements remote.View.
func (v *view) Pages(ctx context.Context, spans []remote.Span) ([]remote.Page, error) {
	answers, err := v.read(ctx, len(spans), func(i int) client.Op { return v.page(&spans[i]) })
	if err != nil {
		return nil, err
	}
	pages := make([]remote.Page, len(spans))
	for i, answer := range answers {
		pages[i].More = answer.More
		pages[i].Pairs = make([]remote.Pair, len(answer.Kvs))
		for j, kv := range answer.Kvs {
			pages[i].Pairs[j] = pair(kv)
		}
	}
	return pages, nil
}

func (v *view) page(span *remote.Span) client.Op {
	order := client.SortAscend
	if span.Reverse {
		order = client.SortDescend
	}
	return client.OpGet(string(span.Start), client.WithRange(string(span.End)),
		client.WithSort(client.SortByKey, order), client.WithLimit(int64(span.Limit)),
		client.WithRev(v.rev))
}

// read returns the answers of n reads: as one request, or, if that would be too large, as one after
// which the revision is known, and the others at the same time.
func (v *view) read(
	ctx context.Context, n int, op func(i int) client.Op,
) ([]*pb.RangeResponse, error) {
	ctx, cancel := v.s.Within(ctx)
	defer cancel()
	out := make([]*pb.RangeResponse, n)
	most := v.s.o.txnOps()
	part := func(from int) error {
		ops := make([]client.Op, 0, min(most, n))
		for i := from; i < min(from+most, n); i++ {
			ops = append(ops, op(i))
		}
		rev, err := v.s.send(ctx, ops, out[from:])
		if v.rev == 0 {
			v.rev = rev
		}
		return v.s.failure(ctx, "read", err)
	}
	if err := part(0); err != nil {
		return nil, err
	}
	var wg sync.WaitGroup
	errs := make([]error, n)
	for from := most; from < n; from += most {
		wg.Go(func() {
			errs[from] = part(from)
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// send sends reads as one request, and puts the answers into out. It returns the revision.
func (s *Store) send(
	ctx context.Context, ops []client.Op, out []*pb.RangeResponse,
) (rev int64, err error) {
	defer store.BeginRequest(ctx)()
	if len(ops) == 1 { // a transaction would do, but a range is simpler for the server
		resp, err := s.c.Do(ctx, ops[0])
		if err != nil {
			return 0, err
		}
		out[0] = (*pb.RangeResponse)(resp.Get())
		return out[0].Header.Revision, nil
	}
	resp, err := s.c.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return 0, err
	}
	for i := range ops {
		out[i] = resp.Responses[i].GetResponseRange()
	}
	return resp.Header.Revision, nil
}
