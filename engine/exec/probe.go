package exec

import (
	"bytes"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/keycodec"
)

// place is where the rows of a probe are: the beginning of a sort key in one partition or, with
// Probe.Unique, one key. Places are sorted by partition and sort key.
type place struct {
	pk, sk []byte // sk: nil for a row without sort key
	probe  int
}

// prober numbers the different places of a batch of probes. Why by places and not by values:
// what is equal under a collation is one probe.
type prober struct {
	node   *plan.Access
	probes map[string]int
	pk, sk []byte // of the last probe
	places []place
}

// add returns the number of the probe of values, -1 if no row can be equal to them.
func (p *prober) add(values []expr.Value) int {
	var found bool
	if p.pk, p.sk, found = p.node.AppendProbe(p.pk[:0], p.sk[:0], values); !found {
		return -1
	}
	n := len(p.pk)
	p.pk = append(p.pk, p.sk...)
	if probe, known := p.probes[string(p.pk)]; known {
		return probe
	}
	if p.probes == nil {
		p.probes = map[string]int{}
	}
	probe := len(p.probes)
	p.probes[string(p.pk)] = probe
	key := bytes.Clone(p.pk)
	at := place{pk: key[:n:n], probe: probe}
	if len(key) > n {
		at.sk = key[n:]
	}
	if x := p.node.Index; x == nil || x.Placement != schema.Local {
		p.places = append(p.places, at)
		return probe
	}
	for b := range p.node.Index.Buckets() {
		at.pk = p.node.Index.BucketPK(nil, b)
		p.places = append(p.places, at)
	}
	return probe
}

// reset forgets all probes.
func (p *prober) reset() {
	clear(p.probes)
	p.places = p.places[:0]
}

func comparePlaces(a, b place) int {
	if c := bytes.Compare(a.pk, b.pk); c != 0 {
		return c
	}
	return bytes.Compare(a.sk, b.sk)
}

// readPlaces calls found for all items at the places, which are sorted and different,
// with the probe they belong to. An item is valid during the call.
func (a *access) readPlaces(places []place, found func(probe int, it store.Item) error) error {
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
	if a.node.Probe.Unique {
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
