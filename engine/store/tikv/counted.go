package tikv

import (
	"context"
	"time"

	"github.com/tikv/client-go/v2/oracle"
	client "github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"

	"github.com/kstonedb/kstone/engine/store"
)

// countedClient counts requests to servers.
type countedClient struct{ client.Client }

// SendRequest implements client.Client.
func (c countedClient) SendRequest(
	ctx context.Context, addr string, req *tikvrpc.Request, timeout time.Duration,
) (*tikvrpc.Response, error) {
	if c, ok := ctx.Value(commitKey{}).(*sending); ok {
		c.prewritten.Store(true)
		if answer := c.refusal(req); answer != nil {
			return answer, nil
		}
		if decides(req) {
			c.decided.Store(true)
		}
	}
	defer store.BeginRequest(ctx)()
	return c.Client.SendRequest(ctx, addr, req, timeout)
}

// decides reports whether a request may commit a transaction.
func decides(req *tikvrpc.Request) bool {
	if req.Type == tikvrpc.CmdPrewrite {
		return req.Prewrite().UseAsyncCommit || req.Prewrite().TryOnePc
	}
	return req.Type == tikvrpc.CmdCommit
}

// countedOracle counts requests for timestamps. A commit that has one to come after gets that.
type countedOracle struct{ oracle.Oracle }

// GetTimestamp implements oracle.Oracle.
func (o countedOracle) GetTimestamp(ctx context.Context, opt *oracle.Option) (uint64, error) {
	if c, ok := ctx.Value(commitKey{}).(*sending); ok && c.now != 0 && !c.prewritten.Load() {
		return c.now, nil
	}
	defer store.BeginRequest(ctx)()
	return o.Oracle.GetTimestamp(ctx, opt)
}
