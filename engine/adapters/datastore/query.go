package datastore

import (
	"context"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"

	"github.com/kstonedb/kstone/engine"
)

// Query implements ds.Read. Its results have to be closed, or read to their end.
func (d *Datastore) Query(ctx context.Context, q query.Query) (query.Results, error) {
	scan := engine.Scan{KeysOnly: q.KeysOnly && !q.ReturnsSizes}
	if prefix := ds.NewKey(q.Prefix).String(); prefix != "/" {
		// Whole names only: /foo selects /foo/bar, and neither /foo nor /foobar.
		scan.From, scan.To = engine.K(prefix+"/"), engine.K(prefix+"0")
	}
	rest := q // what is left to do
	rest.Prefix = ""
	if len(q.Orders) > 0 {
		switch q.Orders[0].(type) {
		case query.OrderByKey, *query.OrderByKey:
			rest.Orders = nil
		case query.OrderByKeyDescending, *query.OrderByKeyDescending:
			rest.Orders, scan.Reverse = nil, true
		}
	}
	it, err := d.db.ScanIterator(ctx, scan)
	if err != nil {
		return nil, err
	}
	failed := false
	results := query.ResultsFromIterator(q, query.Iterator{
		Next: func() (query.Result, bool) {
			if it.Next() {
				return query.Result{Entry: entry(it.Item(), &q)}, true
			}
			err := it.Err()
			if err == nil || failed {
				return query.Result{}, false
			}
			failed = true
			return query.Result{Error: err}, true
		},
		Close: it.Close,
	})
	return query.NaiveQueryApply(rest, results), nil
}

// entry returns an item as a query has it.
func entry(item engine.Item, q *query.Query) query.Entry {
	e := query.Entry{Key: string(item.Key.PK), Size: len(item.Value)}
	switch {
	case !q.KeysOnly:
		e.Value = append([]byte{}, item.Value...)
	case !q.ReturnsSizes: // the value was not read
		e.Size = -1
	}
	if at, ok := item.ExpiresAt(); ok && q.ReturnExpirations {
		e.Expiration = at
	}
	return e
}

// DiskUsage implements ds.PersistentFeature.
func (d *Datastore) DiskUsage(context.Context) (uint64, error) {
	m := d.db.Metrics()
	return uint64(m.Total.DiskBytes + m.LogBytes + m.RetainedBytes), nil
}
