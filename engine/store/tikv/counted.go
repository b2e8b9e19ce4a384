package tikv

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tikv/client-go/v2/oracle"
	client "github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"

	"github.com/kstonedb/kstone/engine/store/remote"
)

// sentKey is the key of an *atomic.Bool in the context of a commit: see Store.outcome.
type sentKey struct{}

// countedClient counts requests to servers.
type countedClient struct{ client.Client }

// SendRequest implements client.Client.
func (c countedClient) SendRequest(
	ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration,
) (*tikvrpc.Response, error) {
	if sent, ok := ctx.Value(sentKey{}).(*atomic.Bool); ok && decides(req) {
		sent.Store(true)
	}
	defer remote.Request(ctx)()
	return c.Client.SendRequest(ctx, addr, req, timeout)
}

// decides reports whether a request may commit a transaction.
func decides(req *tikvrpc.Request) bool {
	if req.Type == tikvrpc.CmdPrewrite {
		return req.Prewrite().UseAsyncCommit || req.Prewrite().TryOnePc
	}
	return req.Type == tikvrpc.CmdCommit
}

// countedOracle counts requests for timestamps.
type countedOracle struct{ oracle.Oracle }

// GetTimestamp implements oracle.Oracle.
func (o countedOracle) GetTimestamp(ctx context.Context, opt *oracle.Option) (uint64, error) {
	defer remote.Request(ctx)()
	return o.Oracle.GetTimestamp(ctx, opt)
}
