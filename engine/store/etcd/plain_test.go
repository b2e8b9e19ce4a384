package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	client "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/kstonedb/kstone/engine/store/remote/remotetest"
	"github.com/kstonedb/kstone/internal/testutil"
)

// plain does the operations of docs/stores.md with the client of etcd alone. Orders have entries
// for three indexes; entry ENTRIES/VALUE/ID leads to ORDERS/ID.
type plain struct{ c *client.Client }

const plainOrders = 600

func (p plain) fill(t *testing.T) {
	t.Helper()
	for i := range plainOrders {
		_, err := p.c.Txn(ctx).Then(append(p.order(i, i%16),
			client.OpPut(fmt.Sprintf("customer/%06d", i), "name"),
			client.OpPut(fmt.Sprintf("events/%d/%06d", i%4, i), "event"))...).Commit()
		ok(t, err)
	}
}

func (plain) order(i, bucket int) []client.Op {
	return []client.Op{
		client.OpPut(fmt.Sprintf("orders/%06d", i), "row"),
		client.OpPut(fmt.Sprintf("by_customer/%06d/%06d", i, i), ""),
		client.OpPut(fmt.Sprintf("by_total/%06d/%06d", i, i), "note"),
		client.OpPut(fmt.Sprintf("by_at/%02d/%06d/%06d", bucket, i, i), ""),
	}
}

func (p plain) get(ctx context.Context, key string, more ...client.OpOption) error {
	resp, err := p.c.Get(ctx, key, more...)
	if err == nil && resp.Count == 0 {
		err = errors.New("nothing is there")
	}
	return err
}

func (p plain) page(prefix string, limit int64) func(context.Context, int) error {
	return func(ctx context.Context, _ int) error {
		return p.get(ctx, prefix, client.WithPrefix(), client.WithLimit(limit))
	}
}

func (p plain) buckets(ctx context.Context, _ int) error {
	var ops []client.Op
	for b := range 16 {
		ops = append(ops, client.OpGet(fmt.Sprintf("by_at/%02d/", b), client.WithPrefix(),
			client.WithLimit(10)))
	}
	_, err := p.c.Txn(ctx).Then(ops...).Commit()
	return err
}

// join reads 512 orders, and their customers at the same revision.
func (p plain) join(ctx context.Context, _ int) error {
	const rows, most = 512, 128
	orders, err := p.c.Get(ctx, "orders/", client.WithPrefix(), client.WithLimit(rows))
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var errs [rows / most]error
	for part := range errs {
		var ops []client.Op
		for i := range most {
			ops = append(ops, client.OpGet(fmt.Sprintf("customer/%06d", part*most+i),
				client.WithRev(orders.Header.Revision)))
		}
		wg.Go(func() { _, errs[part] = p.c.Txn(ctx).Then(ops...).Commit() })
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

func (p plain) insert(ctx context.Context, n int) error {
	i := 1000 + n
	absent := client.Compare(client.CreateRevision(fmt.Sprintf("orders/%06d", i)), "=", 0)
	resp, err := p.c.Txn(ctx).If(absent).Then(p.order(i, i%16)...).Commit()
	if err == nil && !resp.Succeeded {
		err = errors.New("the order is there")
	}
	return err
}

// change reads an order and then writes it and an entry, or removes all, if it is the same still.
func (p plain) change(remove bool) func(context.Context, int) error {
	return func(ctx context.Context, n int) error {
		i := n
		key := fmt.Sprintf("orders/%06d", i)
		old, err := p.c.Get(ctx, key)
		if err != nil || len(old.Kvs) == 0 {
			return fmt.Errorf("order %d: %w", i, err)
		}
		ops := []client.Op{
			client.OpPut(key, "new"),
			client.OpDelete(fmt.Sprintf("by_total/%06d/%06d", i, i)),
			client.OpPut(fmt.Sprintf("by_total/%06d/%06d", i+1, i), "note"),
		}
		if remove {
			ops = nil
			for _, op := range p.order(i, i%16) {
				ops = append(ops, client.OpDelete(string(op.KeyBytes())))
			}
		}
		same := client.Compare(client.ModRevision(key), "=", old.Kvs[0].ModRevision)
		_, err = p.c.Txn(ctx).If(same).Then(ops...).Commit()
		return err
	}
}

// The operations of docs/stores.md with the client alone wait for so many round trips.
func TestPlainClient(t *testing.T) {
	testutil.SkipUnderRace(t, "it measures")
	proxy := testutil.NewProxy(t, start(t, 1, nil).Address(0))
	c, err := client.New(client.Config{
		Endpoints: []string{"http://" + proxy.Addr()}, Logger: zap.NewNop(),
	})
	ok(t, err)
	defer c.Close()
	p := plain{c}
	p.fill(t)
	remotetest.RunOperations(t, proxy.SetLatency, []remotetest.Operation{
		remotetest.Op("point by primary key", 1, func(ctx context.Context, n int) error {
			return p.get(ctx, fmt.Sprintf("orders/%06d", n))
		}),
		remotetest.Op("lookup by an index", 2, func(ctx context.Context, n int) error {
			err := p.get(ctx, fmt.Sprintf("by_customer/%06d/", n), client.WithPrefix())
			if err != nil {
				return err
			}
			return p.get(ctx, fmt.Sprintf("orders/%06d", n))
		}),
		remotetest.Op("lookup by a covering index", 1, func(ctx context.Context, n int) error {
			return p.get(ctx, fmt.Sprintf("by_total/%06d/", n), client.WithPrefix())
		}),
		remotetest.Op("page of a partition", 1, p.page("events/1/", 50)),
		remotetest.Op("page of all partitions", 1, p.page("orders/", 50)),
		remotetest.Op("first 10 of an index of 16 buckets", 1, p.buckets),
		remotetest.Op("join of 512 rows", 2, p.join),
		remotetest.Op("insert with three indexes", 1, p.insert),
		remotetest.Op("update by primary key", 2, p.change(false)),
		remotetest.Op("delete by primary key", 2, p.change(true)),
	})
}
