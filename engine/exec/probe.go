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

// place is where the rows of a probe are: the beginning of a sort key in one partition or, with
// Probe.Unique, one key. Places are sorted by partition and sort key.
type place struct {
	pk, sk []byte // sk: nil for a row without sort key
	probe  int
}

// prober numbers the different places of a batch of left rows. Why by places and not by values:
// what is equal under a collation is one probe.
type prober struct {
	node   *plan.Access
	pk, sk []byte  // of the last row
	arena  []byte  // what the places refer to
	probes []int   // of each row, -1 for one without partners
	places []place // until settle: of each row, whose number is the probe
	count  int     // of different places, after settle; without those of further buckets
	keys   []store.Key
}

// add takes the values of the next row.
func (p *prober) add(values []expr.Value) {
	var found bool
	row := len(p.probes)
	p.probes = append(p.probes, -1)
	if p.pk, p.sk, found = p.node.AppendProbe(p.pk[:0], p.sk[:0], values); !found {
		return
	}
	from := len(p.arena)
	p.arena = append(append(p.arena, p.pk...), p.sk...)
	// If the arena moves, earlier places keep the memory they were written to.
	mid, end := from+len(p.pk), len(p.arena)
	at := place{pk: p.arena[from:mid:mid], probe: row}
	if end > mid {
		at.sk = p.arena[mid:end:end]
	}
	p.places = append(p.places, at)
}

// settle sorts the places, numbers those that differ, and returns how many there are. It may be
// called again.
func (p *prober) settle() int {
	if p.count > 0 {
		return p.count
	}
	slices.SortFunc(p.places, comparePlaces)
	different := p.places[:0]
	for _, at := range p.places {
		if p.count == 0 || comparePlaces(different[p.count-1], at) != 0 {
			different = append(different, at)
			p.count++
		}
		p.probes[at.probe] = p.count - 1
		different[p.count-1].probe = p.count - 1
	}
	p.places = different
	x := p.node.Index
	if x == nil || x.Placement != schema.Local {
		return p.count
	}
	p.places = make([]place, 0, p.count*x.Buckets())
	for b := range x.Buckets() { // their keys ascend
		pk := x.BucketPK(nil, b)
		for _, at := range different {
			p.places = append(p.places, place{pk, at.sk, at.probe})
		}
	}
	return p.count
}

// reset forgets all rows.
func (p *prober) reset() {
	p.arena, p.probes, p.places, p.count = p.arena[:0], p.probes[:0], p.places[:0], 0
}

func comparePlaces(a, b place) int {
	if c := bytes.Compare(a.pk, b.pk); c != 0 {
		return c
	}
	return bytes.Compare(a.sk, b.sk)
}

// readPlaces calls found for all items at the places of a prober that is settled, with the probe
// they belong to. An item is valid during the call.
func (a *access) readPlaces(p *prober, found func(probe int, it store.Item) error) error {
	places := p.places
	if err := a.meter.check(len(places)); err != nil {
		return err
	}
	actual := a.counts
	count := func(it store.Item) error {
		actual.Keys++
		actual.Bytes += int64(len(it.Key.PK) + len(it.Key.SK) + len(it.Value))
		if actual.Keys%checkEvery == 0 {
			return a.meter.check(a.fetch.len())
		}
		return nil
	}
	if a.node.Probe.Unique {
		actual.Fetch(len(places))
		p.keys = slices.Grow(p.keys[:0], len(places))
		for i := range places {
			p.keys = append(p.keys, store.Key{PK: places[i].pk, SK: places[i].sk})
		}
		var failed error
		err := a.reader.MultiGet(a.ctx, p.keys, func(i int, it store.Item) {
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
