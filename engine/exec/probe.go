package exec

import (
	"bytes"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/keycodec"
)

// prober turns values into the places where rows with these values are: the beginning of
// a sort key in one partition, or, of a local index, in all of them.
type prober struct {
	node    *plan.Access
	columns []schema.KeyColumn
	bound   []expr.Value
	point   bool // a place is a whole key
}

// place is where the rows of a probe are. Places are sorted by partition and sort key.
type place struct {
	pk, sk []byte // sk: nil for a row without sort key, else a beginning
	probe  int
}

func newProber(n *plan.Access) *prober {
	p := &prober{node: n, bound: make([]expr.Value, len(n.Probe.Exprs))}
	if n.Index != nil {
		for _, c := range n.Index.Columns {
			p.columns = append(p.columns, c.KeyColumn)
		}
	} else {
		p.columns = slices.Concat(n.Table.PK, n.Table.SK)
	}
	p.point = n.Probe.Unique && len(p.columns) == len(p.bound)
	return p
}

// convert makes values of the columns out of those of a probe: equal ones, so that what
// is equal under a collation is one probe. It returns nil if no row can be equal to them.
// The result is valid until the next call.
func (p *prober) convert(values []expr.Value) ([]expr.Value, error) {
	for i, v := range values {
		column := &p.node.Table.Columns[p.columns[i].Ordinal]
		bound, cmp, err := column.Bound(v)
		if err != nil || cmp != 0 || bound.IsNull() {
			return nil, err
		}
		p.bound[i] = bound
	}
	return p.bound, nil
}

// appendPlaces adds the places of the values that were converted last.
func (p *prober) appendPlaces(list []place, probe int) ([]place, error) {
	x := p.node.Spread()
	if x == nil {
		return p.rowPlace(list, probe)
	}
	sk, err := p.encode(nil, 0, len(p.bound))
	if err != nil {
		return list, err
	}
	if x.Placement == schema.Local {
		for b := range x.Buckets() {
			list = append(list, place{x.BucketPK(nil, b), sk, probe})
		}
		return list, nil
	}
	b, err := x.Bucket(p.bound)
	return append(list, place{x.BucketPK(nil, b), sk, probe}), err
}

// encode appends the encodings of some of the values.
func (p *prober) encode(dst []byte, from, to int) ([]byte, error) {
	var err error
	for i := from; i < to && err == nil; i++ {
		column := &p.node.Table.Columns[p.columns[i].Ordinal]
		dst, err = column.AppendField(dst, p.columns[i], p.bound[i])
	}
	return dst, err
}

// rowPlace adds the place of rows whose partition key is known.
func (p *prober) rowPlace(list []place, probe int) ([]place, error) {
	n := len(p.node.Table.PK)
	pk, err := p.encode(p.node.Table.AppendRowPrefix(nil), 0, n)
	if err != nil {
		return list, err
	}
	at := place{pk: pk, probe: probe}
	if len(p.node.Table.SK) > 0 {
		at.sk, err = p.encode([]byte{}, n, len(p.bound))
	}
	return append(list, at), err
}

func comparePlaces(a, b place) int {
	if c := bytes.Compare(a.pk, b.pk); c != 0 {
		return c
	}
	return bytes.Compare(a.sk, b.sk)
}

// readPlaces calls found for all items at the places, which are sorted and different,
// with the probe they belong to. An item is valid during the call.
func (a *access) readPlaces(places []place, point bool,
	found func(probe int, it store.Item) error) (err error) {
	if err := a.meter.check(len(places)); err != nil {
		return err
	}
	actual := a.counts
	count := func(it store.Item) error {
		actual.Keys++
		actual.Bytes += int64(len(it.Key.PK) + len(it.Key.SK) + len(it.Value))
		if actual.Keys%checkEvery == 0 {
			return a.meter.check(a.pending())
		}
		return nil
	}
	if point {
		actual.Fetch(len(places))
		keys := make([]store.Key, len(places))
		for i := range places {
			keys[i] = store.Key{PK: places[i].pk, SK: places[i].sk}
		}
		var failed error
		err := a.reader.MultiGet(a.ctx, keys, func(i int, it store.Item) {
			if failed == nil {
				failed = count(it)
			}
			if failed == nil {
				failed = found(places[i].probe, it)
			}
		})
		return first(failed, err)
	}
	actual.Seeks += int64(len(places))
	at := 0
	for it, err := range a.reader.Scan(a.ctx, rangeOfPlaces(places)) {
		if err != nil {
			return err
		}
		if err := count(it); err != nil {
			return err
		}
		// Items come in the order of the places.
		for !bytes.Equal(places[at].pk, it.Key.PK) || !bytes.HasPrefix(it.Key.SK, places[at].sk) {
			at++
		}
		if err := found(places[at].probe, it); err != nil {
			return err
		}
	}
	return nil
}

// rangeOfPlaces returns the range of all items at the places.
func rangeOfPlaces(places []place) store.Range {
	r := store.Range{Kind: store.KindPartitions, Unordered: true}
	for i, p := range places {
		if i == 0 || !bytes.Equal(p.pk, places[i-1].pk) {
			r.PKs = append(r.PKs, p.pk)
			r.Each = append(r.Each, nil)
		}
		last := len(r.Each) - 1
		if len(p.sk) > 0 {
			r.Each[last] = append(r.Each[last], keycodec.PrefixSpan(p.sk))
		}
	}
	return r
}
