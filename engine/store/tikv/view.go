package tikv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	tikverr "github.com/tikv/client-go/v2/error"
	client "github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/txnkv/txnlock"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
)

// view reads at a timestamp.
type view struct {
	s  *Store
	ts uint64
	// own, if not 0, is the beginning of a transaction whose locks are passed over. Others are
	// waited for only shortly then: see tx.go.
	own uint64
}

// at returns a view of a timestamp.
func (s *Store) at(ts uint64) *view { return &view{s: s, ts: ts} }

// maxSleepMs bounds how long the client tries again: the context ends it.
const maxSleepMs = 1 << 30

// maxParallel bounds the requests of one read that are under way at the same time.
const maxParallel = 256

// Get implements remote.View.
func (v *view) Get(ctx context.Context, keys [][]byte) ([]remote.Pair, error) {
	ctx, cancel := v.s.Within(ctx)
	defer cancel()
	snap, out := v.s.kv.GetSnapshot(v.ts), make([]remote.Pair, len(keys))
	if len(keys) == 1 {
		value, err := snap.Get(ctx, keys[0])
		if err != nil && !tikverr.IsErrNotFound(err) {
			return nil, v.s.failure(ctx, "reading a key", err)
		}
		out[0] = remote.Pair{Key: keys[0], Value: value}
		return out, nil
	}
	values, err := snap.BatchGet(ctx, keys)
	if err != nil {
		return nil, v.s.failure(ctx, fmt.Sprintf("reading %d keys", len(keys)), err)
	}
	for i, key := range keys {
		out[i] = remote.Pair{Key: key, Value: values[string(key)]}
	}
	return out, nil
}

// Pages implements remote.View: all at the same time.
func (v *view) Pages(ctx context.Context, spans []remote.Span) ([]remote.Page, error) {
	ctx, cancel := v.s.Within(ctx)
	defer cancel()
	pages, errs := make([]remote.Page, len(spans)), make([]error, len(spans))
	read := func(i int) {
		if pages[i], errs[i] = v.page(ctx, spans[i]); errs[i] != nil {
			cancel()
		}
	}
	var wg sync.WaitGroup
	places := make(chan struct{}, maxParallel)
	for i := range spans[1:] {
		places <- struct{}{}
		wg.Go(func() {
			read(i + 1)
			<-places
		})
	}
	read(0)
	wg.Wait()
	for _, err := range errs { // the first that is not due to another one
		if err != nil && !errors.Is(err, context.Canceled) {
			return nil, v.s.failure(ctx, "reading a page", err)
		}
	}
	return pages, v.s.failure(ctx, "reading a page", errors.Join(errs...))
}

// page reads a page from the first region that has pairs of it.
//
// Why not the client's iterator: it takes no context, and reads on when it is reversed and past
// the lower end.
func (v *view) page(ctx context.Context, span remote.Span) (remote.Page, error) {
	r := pageReader{view: v, bo: client.NewBackoffer(ctx, maxSleepMs), span: span}
	if v.own != 0 {
		r.resolved = []uint64{v.own}
	}
	for {
		pairs, err := r.region()
		if err != nil {
			return remote.Page{}, err
		}
		more := bytes.Compare(r.span.Start, r.span.End) < 0
		if len(pairs) > 0 || !more {
			return remote.Page{Pairs: pairs, More: more}, nil
		}
	}
}

// only reads a page with one request. Whole reports that it is all of the span, or enough of it,
// and stays so while the clock goes on.
func (v *view) only(ctx context.Context, span remote.Span) (p remote.Page, whole bool, err error) {
	r := pageReader{view: v, bo: client.NewBackoffer(ctx, maxSleepMs), span: span}
	if p.Pairs, err = r.region(); err != nil {
		return p, false, err
	}
	p.More = bytes.Compare(r.span.Start, r.span.End) < 0
	for _, pair := range p.Pairs {
		if _, expiry, err := remote.DecodeValue(pair.Value); err != nil || expiry != 0 {
			return p, false, err
		}
	}
	return p, !p.More || span.Last && len(p.Pairs) == span.Limit, nil
}

// pageReader reads regions. Its span is what is left.
type pageReader struct {
	*view
	bo   *client.Backoffer
	span remote.Span
	// resolved and committed are transactions whose locks the servers shall pass over, or read
	// through.
	resolved, committed []uint64
	waits               int // how often it has waited for a lock
}

// region reads pairs of the first region of the span, and cuts the region off if that was all.
func (r *pageReader) region() ([]remote.Pair, error) {
	for {
		loc, err := r.locate()
		if err != nil {
			return nil, err
		}
		req := r.request(loc)
		resp, err := r.s.kv.SendReq(r.bo, req, loc.Region, client.ReadTimeoutMedium)
		if err != nil {
			return nil, err
		}
		regionErr, err := resp.GetRegionError()
		if err != nil {
			return nil, err
		}
		if regionErr != nil { // the cache of regions has dropped what it had
			err := r.bo.Backoff(client.BoRegionMiss(), errors.New(regionErr.String()))
			if err != nil {
				return nil, err
			}
			continue
		}
		if resp.Resp == nil {
			return nil, tikverr.ErrBodyMissing
		}
		scanned := resp.Resp.(*kvrpcpb.ScanResponse)
		if err := r.s.kv.CheckVisibility(r.ts); err != nil {
			return nil, err
		}
		if locked, err := r.unlock(scanned); err != nil {
			return nil, err
		} else if locked {
			continue
		}
		return r.take(req.Scan(), scanned.Pairs), nil
	}
}

// locate returns the first region of the span.
func (r *pageReader) locate() (*client.KeyLocation, error) {
	if r.span.Reverse {
		return r.s.kv.GetRegionCache().LocateEndKey(r.bo, r.span.End)
	}
	return r.s.kv.GetRegionCache().LocateKey(r.bo, r.span.Start)
}

// request returns what reads the part of the span that is in a region. A request in descending
// order begins with its upper end.
func (r *pageReader) request(loc *client.KeyLocation) *tikvrpc.Request {
	start, end := r.span.Start, r.span.End
	if bytes.Compare(loc.StartKey, start) > 0 {
		start = loc.StartKey
	}
	if len(loc.EndKey) > 0 && bytes.Compare(loc.EndKey, end) < 0 {
		end = loc.EndKey
	}
	scan := &kvrpcpb.ScanRequest{
		StartKey: start, EndKey: end, Limit: uint32(min(r.span.Limit, math.MaxUint32)),
		Version: r.ts, Reverse: r.span.Reverse,
	}
	if r.span.Reverse {
		scan.StartKey, scan.EndKey = end, start
	}
	return tikvrpc.NewRequest(tikvrpc.CmdScan, scan, kvrpcpb.Context{
		ResolvedLocks: r.resolved, CommittedLocks: r.committed,
	})
}

// unlock resolves the locks that a response has met, and reports whether there were any. It waits
// for transactions that are still alive.
func (r *pageReader) unlock(resp *kvrpcpb.ScanResponse) (bool, error) {
	var locks []*txnlock.Lock
	add := func(e *kvrpcpb.KeyError) error {
		if e == nil {
			return nil
		}
		lock, err := txnlock.ExtractLockFromKeyErr(e)
		locks = append(locks, lock)
		return err
	}
	if err := add(resp.GetError()); err != nil {
		return false, err
	}
	for _, pair := range resp.Pairs {
		if err := add(pair.GetError()); err != nil {
			return false, err
		}
	}
	if len(locks) == 0 {
		return false, nil
	}
	const lite = false
	ms, resolved, committed, err := r.s.kv.GetLockResolver().ResolveLocksForRead(r.bo, r.ts, locks,
		lite)
	r.resolved, r.committed = append(r.resolved, resolved...), append(r.committed, committed...)
	if r.waits++; r.own != 0 && r.waits > maxOwnWaits {
		return true, fmt.Errorf("%w: %d locks of others", store.ErrConflict, len(locks))
	}
	if err == nil && ms > 0 {
		err = r.bo.BackoffWithMaxSleepTxnLockFast(int(ms),
			fmt.Errorf("a page meets %d locks", len(locks)))
	}
	return true, err
}

// take returns the pairs of a response, and cuts off the span what they cover.
func (r *pageReader) take(req *kvrpcpb.ScanRequest, pairs []*kvrpcpb.KvPair) []remote.Pair {
	out := make([]remote.Pair, len(pairs))
	for i, p := range pairs {
		out[i] = remote.Pair{Key: p.Key, Value: p.Value}
	}
	full := len(pairs) >= r.span.Limit
	switch {
	case full && r.span.Reverse:
		r.span.End = pairs[len(pairs)-1].Key
	case full:
		r.span.Start = append(bytes.Clone(pairs[len(pairs)-1].Key), 0)
	case r.span.Reverse:
		r.span.End = req.EndKey
	default:
		r.span.Start = req.EndKey
	}
	return out
}
