package tikv_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	client "github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/txnkv/transaction"

	"github.com/kstonedb/kstone/engine/store/remote/remotetest"
	"github.com/kstonedb/kstone/internal/testutil"
)

// plain does the operations of docs/stores.md with the client of TiKV alone, in transactions.
// Orders have entries for three indexes; entry ENTRIES/VALUE/ID leads to ORDERS/ID.
type plain struct{ kv *client.KVStore }

const plainOrders = 600

func (plain) order(i, bucket int) map[string]string {
	return map[string]string{
		fmt.Sprintf("orders/%06d", i):                     "row",
		fmt.Sprintf("by_customer/%06d/%06d", i, i):        "-",
		fmt.Sprintf("by_total/%06d/%06d", i, i):           "note",
		fmt.Sprintf("by_at/%02d/%06d/%06d", bucket, i, i): "-",
	}
}

func (p plain) fill(t *testing.T) {
	t.Helper()
	txn := p.begin(t)
	for i := range plainOrders {
		rows := p.order(i, i%16)
		rows[fmt.Sprintf("customer/%06d", i)] = "name"
		rows[fmt.Sprintf("events/%d/%06d", i%4, i)] = "event"
		for k, v := range rows {
			ok(t, txn.Set([]byte(k), []byte(v)))
		}
	}
	ok(t, txn.Commit(ctx))
}

func (p plain) begin(t *testing.T) *transaction.KVTxn {
	t.Helper()
	txn, err := p.kv.Begin()
	ok(t, err)
	txn.SetEnableAsyncCommit(true)
	txn.SetEnable1PC(true)
	return txn
}

// scan reads up to limit pairs of a prefix with one request.
func scan(txn *transaction.KVTxn, prefix string, limit int) (last []byte, err error) {
	txn.GetSnapshot().SetScanBatchSize(limit)
	it, err := txn.Iter([]byte(prefix), []byte(prefix+"\xff"))
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for n := 1; it.Valid(); n++ {
		last = it.Key()
		if n == limit {
			break
		}
		if err := it.Next(); err != nil {
			return nil, err
		}
	}
	if last == nil {
		return nil, errors.New("nothing is there")
	}
	return last, nil
}

func (p plain) page(t *testing.T, prefix string, limit int) func(context.Context, int) error {
	return func(context.Context, int) error {
		_, err := scan(p.begin(t), prefix, limit)
		return err
	}
}

func (p plain) buckets(t *testing.T) error {
	txn := p.begin(t)
	var wg sync.WaitGroup
	var errs [16]error
	for b := range errs {
		snap := p.kv.GetSnapshot(txn.StartTS())
		snap.SetScanBatchSize(10)
		wg.Go(func() {
			prefix := fmt.Sprintf("by_at/%02d/", b)
			it, err := snap.Iter([]byte(prefix), []byte(prefix+"\xff"))
			if errs[b] = err; err == nil {
				it.Close()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

func (p plain) join(ctx context.Context, t *testing.T) error {
	txn := p.begin(t)
	if _, err := scan(txn, "orders/", 512); err != nil {
		return err
	}
	var keys [][]byte
	for i := range 512 {
		keys = append(keys, fmt.Appendf(nil, "customer/%06d", i))
	}
	_, err := txn.BatchGet(ctx, keys)
	return err
}

// change reads an order and then writes it and its entries, or removes them.
func (p plain) change(t *testing.T, remove bool) func(context.Context, int) error {
	return func(ctx context.Context, n int) error {
		txn := p.begin(t)
		if _, err := txn.Get(ctx, fmt.Appendf(nil, "orders/%06d", n)); err != nil {
			return err
		}
		for k := range p.order(n, n%16) {
			if remove {
				ok(t, txn.Delete([]byte(k)))
			} else {
				ok(t, txn.Set([]byte(k), []byte("new")))
			}
		}
		return txn.Commit(ctx)
	}
}

// The operations of docs/stores.md with the client alone wait for so many round trips.
func TestPlainClient(t *testing.T) {
	testutil.SkipUnderRace(t, "it measures")
	cluster := start(t)
	p := plain{cluster.Client()}
	p.fill(t)
	remotetest.RunOperations(t, cluster.SetLatency, []remotetest.Operation{
		remotetest.Op("point by primary key", 1, func(ctx context.Context, n int) error {
			snap := p.kv.GetSnapshot(math.MaxUint64)
			_, err := snap.Get(ctx, fmt.Appendf(nil, "orders/%06d", n))
			return err
		}),
		remotetest.Op("lookup by an index", 3, func(ctx context.Context, n int) error {
			txn := p.begin(t)
			entry, err := scan(txn, fmt.Sprintf("by_customer/%06d/", n), 10)
			if err == nil {
				_, err = txn.Get(ctx, append([]byte("orders/"), entry[len(entry)-6:]...))
			}
			return err
		}),
		remotetest.Op("lookup by a covering index", 2, func(_ context.Context, n int) error {
			_, err := scan(p.begin(t), fmt.Sprintf("by_total/%06d/", n), 10)
			return err
		}),
		remotetest.Op("page of a partition", 2, p.page(t, "events/1/", 50)),
		remotetest.Op("page of all partitions", 2, p.page(t, "orders/", 50)),
		remotetest.Op("first 10 of an index of 16 buckets", 2, func(context.Context, int) error {
			return p.buckets(t)
		}),
		remotetest.Op("join of 512 rows", 3, func(ctx context.Context, _ int) error {
			return p.join(ctx, t)
		}),
		remotetest.Op("insert with three indexes", 3, func(ctx context.Context, n int) error {
			txn := p.begin(t)
			for k, v := range p.order(1000+n, n%16) {
				ok(t, txn.GetMemBuffer().SetWithFlags([]byte(k), []byte(v), 0))
			}
			return txn.Commit(ctx)
		}),
		remotetest.Op("update by primary key", 4, p.change(t, false)),
		remotetest.Op("delete by primary key", 4, p.change(t, true)),
	})
}
