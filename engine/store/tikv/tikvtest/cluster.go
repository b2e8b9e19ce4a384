// Package tikvtest has a TiKV cluster in this process, for tests of what is above it.
//
// It is the mock of the client, which keeps versions, locks and two-phase commits as servers do,
// and divides keys into regions. It has no Raft, no disk and no network. One-phase and asynchronous
// commits, which the mock does not know, are made of its own: see protocol.
package tikvtest

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pingcap/failpoint"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/testutils"
	client "github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/util"
	"github.com/tikv/client-go/v2/util/codec"
	pd "github.com/tikv/pd/client"

	"github.com/kstonedb/kstone/engine/store/tikv"
)

// Fault is called before a request to a server. If it returns an error, this takes the place of the
// answer; if it also returns true, the server carries out the request nevertheless.
type Fault func(ctx context.Context, req *tikvrpc.Request) (done bool, err error)

// Cluster is a cluster of one placement driver and some stores.
type Cluster struct {
	*testutils.MockCluster
	kv      *client.KVStore
	driver  pd.Client
	latency atomic.Int64
	fault   atomic.Pointer[Fault]
	mu      sync.Mutex // guards changes of the cluster
	// onePhase are the start timestamps of transactions that have committed in one phase, with the
	// timestamps of their commits.
	onePhase sync.Map
	async    asyncTxns
}

// alive makes the client believe that stores live: it would dial their addresses after a fault, and
// stores of the mock have none.
var alive = sync.OnceValue(func() error {
	util.EnableFailpoints()
	return failpoint.Enable("tikvclient/injectLiveness", `return("reachable")`)
})

// Start starts a cluster of n stores with one region.
func Start(n int) (*Cluster, error) {
	if err := alive(); err != nil {
		return nil, err
	}
	rpc, mock, driver, err := testutils.NewMockTiKV("", nil)
	if err != nil {
		return nil, err
	}
	c := &Cluster{MockCluster: mock}
	testutils.BootstrapWithMultiStores(mock, n)
	c.kv, err = client.NewTestTiKVStore(rpc, driver, c.wrap, c.slow, 0)
	return c, err
}

func (c *Cluster) wrap(inner client.Client) client.Client {
	return protocol{c, inner}
}

func (c *Cluster) slow(inner pd.Client) pd.Client {
	c.driver = inner
	return slowDriver{c, inner}
}

// SetLatency makes each request take d, those for timestamps included.
func (c *Cluster) SetLatency(d time.Duration) { c.latency.Store(int64(d)) }

// SetFault sets the fault, nil for none.
func (c *Cluster) SetFault(f Fault) {
	if f == nil {
		c.fault.Store(nil)
		return
	}
	c.fault.Store(&f)
}

// Client returns the client of the cluster.
func (c *Cluster) Client() *client.KVStore { return c.kv }

// Store returns a database of the cluster.
func (c *Cluster) Store(o *tikv.Options) *tikv.Store { return tikv.New(c.kv, o) }

// Close ends the cluster and its client.
func (c *Cluster) Close() error { return c.kv.Close() }

// SplitAt makes a region that begins with key, of the one that holds it.
func (c *Cluster) SplitAt(key []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	region, _, _ := c.GetRegionByKey(codec.EncodeBytes(nil, key))
	peers := make([]uint64, len(region.Peers))
	for i := range peers {
		peers[i] = c.AllocID()
	}
	c.Split(region.Id, c.AllocID(), key, peers, peers[0])
}

// MoveLeaders makes the next store the leader of each region.
func (c *Cluster) MoveLeaders() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.GetAllRegions() {
		meta, leader := c.GetRegion(r.Meta.Id)
		for i, p := range meta.Peers {
			if p.Id == leader {
				c.ChangeLeader(meta.Id, meta.Peers[(i+1)%len(meta.Peers)].Id)
				break
			}
		}
	}
}

// slowDriver is a placement driver that takes its time.
type slowDriver struct {
	c *Cluster
	pd.Client
}

func (d slowDriver) GetTS(ctx context.Context) (int64, int64, error) {
	if err := wait(ctx, d.c.latency.Load()); err != nil {
		return 0, 0, err
	}
	return d.Client.GetTS(ctx)
}

func (d slowDriver) GetTSAsync(ctx context.Context) pd.TSFuture {
	return slowFuture{ctx, d.c.latency.Load(), d.Client.GetTSAsync(ctx)}
}

type slowFuture struct {
	ctx     context.Context
	latency int64
	pd.TSFuture
}

func (f slowFuture) Wait() (int64, int64, error) {
	if err := wait(f.ctx, f.latency); err != nil {
		return 0, 0, err
	}
	return f.TSFuture.Wait()
}

// wait waits for some nanoseconds.
func wait(ctx context.Context, ns int64) error {
	if ns > 0 {
		timer := time.NewTimer(time.Duration(ns))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// protocol adds to the mock the latency, the faults, and the two ways to commit that it lacks.
//
// A server that commits in one phase returns the timestamp of the commit with the answer of the
// prewrite. Here the prewrite is committed before it is answered. Readers in between meet a lock,
// as they do with two phases, and wait for it.
//
// With asynchronous commits the answer of a prewrite has the least timestamp of the commit, which
// is above those of all reads that have not seen the lock. Here it is a new one, taken when the
// lock is there. The client commits with the greatest of its answers, after it has reported
// success; readers wait for it at the locks, as the mock does not let them find out by themselves.
// So they must neither pass over a lock for reading a single key, nor push the timestamp of its
// commit. Nor may a lock that is old be rolled back, if all of the transaction is locked: see
// async.go.
type protocol struct {
	c *Cluster
	client.Client
}

// SendRequest implements client.Client.
func (p protocol) SendRequest(
	ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration,
) (*tikvrpc.Response, error) {
	if err := wait(ctx, p.c.latency.Load()); err != nil {
		return nil, err
	}
	if fault := p.c.fault.Load(); fault != nil {
		if done, err := (*fault)(ctx, req); err != nil {
			if done {
				_, _ = p.answer(ctx, addr, req, timeout)
			}
			return nil, err
		}
	}
	return p.answer(ctx, addr, req, timeout)
}

func (p protocol) answer(
	ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration,
) (*tikvrpc.Response, error) {
	if req.Type == tikvrpc.CmdPrewrite { // again, as the answer was lost
		if ts, ok := p.c.onePhase.Load(req.Prewrite().StartVersion); ok {
			again := &kvrpcpb.PrewriteResponse{OnePcCommitTs: ts.(uint64)}
			return &tikvrpc.Response{Resp: again}, nil
		}
	}
	req, err := p.noneIgnored(ctx, req)
	if err != nil {
		return nil, err
	}
	defer p.c.async.begin(req)()
	if resp := p.c.async.refused(req); resp != nil {
		return resp, nil
	}
	if commit := p.c.async.overdue(req); commit != nil {
		if _, err := p.Client.SendRequest(ctx, addr, commit, timeout); err != nil {
			return nil, err
		}
	}
	resp, err := p.Client.SendRequest(ctx, addr, req, timeout)
	if status, ok := statusOf(resp, err); ok && p.c.async.has(req.CheckTxnStatus().LockTs) {
		status.Action = kvrpcpb.Action_NoAction
	}
	if err != nil || req.Type != tikvrpc.CmdPrewrite {
		return resp, err
	}
	answer, ok := resp.Resp.(*kvrpcpb.PrewriteResponse)
	prewrite := req.Prewrite()
	if !ok || answer.RegionError != nil || len(answer.Errors) > 0 ||
		!prewrite.TryOnePc && !prewrite.UseAsyncCommit {
		return resp, err
	}
	ts, err := p.timestamp(ctx)
	if err != nil {
		return nil, err
	}
	if prewrite.TryOnePc {
		return p.onePhase(ctx, addr, req, resp, ts)
	}
	p.c.async.locked(prewrite, ts)
	answer.MinCommitTs = ts
	return resp, nil
}

// onePhase commits what has been prewritten at ts, and returns the answer to that. resp is the
// answer to the prewrite.
func (p protocol) onePhase(ctx context.Context, addr string, req *tikvrpc.Request,
	resp *tikvrpc.Response, ts uint64) (*tikvrpc.Response, error) {
	prewrite := req.Prewrite()
	var keys [][]byte
	for _, m := range prewrite.Mutations {
		if m.Op != kvrpcpb.Op_CheckNotExists {
			keys = append(keys, m.Key)
		}
	}
	commit := tikvrpc.NewRequest(tikvrpc.CmdCommit, &kvrpcpb.CommitRequest{
		StartVersion: prewrite.StartVersion, Keys: keys, CommitVersion: ts,
	}, req.Context)
	done, err := p.Client.SendRequest(context.WithoutCancel(ctx), addr, commit, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	committed, ok := done.Resp.(*kvrpcpb.CommitResponse)
	if !ok || committed.RegionError != nil || committed.Error != nil {
		return resp, nil // the client goes on with two phases
	}
	p.c.onePhase.Store(prewrite.StartVersion, ts)
	resp.Resp.(*kvrpcpb.PrewriteResponse).OnePcCommitTs = ts
	return resp, nil
}

func (p protocol) timestamp(ctx context.Context) (uint64, error) {
	physical, logical, err := p.c.driver.GetTS(ctx)
	return oracle.ComposeTS(physical, logical), err
}

// statusOf returns the answer to a question for the status of a transaction.
func statusOf(resp *tikvrpc.Response, err error) (*kvrpcpb.CheckTxnStatusResponse, bool) {
	if err != nil {
		return nil, false
	}
	status, ok := resp.Resp.(*kvrpcpb.CheckTxnStatusResponse)
	return status, ok
}

// noneIgnored returns the request such that readers wait for locks.
func (p protocol) noneIgnored(
	ctx context.Context, req *tikvrpc.Request,
) (*tikvrpc.Request, error) {
	changed := *req
	switch req.Type {
	case tikvrpc.CmdGet:
		get := *req.Get()
		if get.Version == math.MaxUint64 {
			ts, err := p.timestamp(ctx)
			if err != nil {
				return nil, err
			}
			get.Version = ts
		}
		changed.Req = &get
	case tikvrpc.CmdScan:
		scan := *req.Scan()
		if scan.Version == math.MaxUint64 {
			ts, err := p.timestamp(ctx)
			if err != nil {
				return nil, err
			}
			scan.Version = ts
		}
		changed.Req = &scan
	case tikvrpc.CmdCheckTxnStatus:
		check := *req.CheckTxnStatus()
		if p.c.async.has(check.LockTs) {
			check.CallerStartTs = 0
		}
		changed.Req = &check
	}
	return &changed, nil
}
