package exec

import (
	"bytes"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/store"
)

// extremes decides which blocks of rows can change MIN and MAX of what was read so far.
//
// The naive way: take the bounds of the zones of all blocks as the result. Why it fails: a value
// may be that of a version that was overwritten, deleted or has expired, of a row that a condition
// rejects, or a bound that was cut.
//
// The way taken: a block is read unless all of its values lie within those that rows have shown
// already. Values seen only grow apart, so what was not wanted once never is again, and the rule of
// sst.Pruner holds: an older version that shows because a newer one was left out is not wanted
// either, so that it changes nothing.
type extremes struct {
	node *plan.Access
	accs []accumulator // of the aggregates, in the order of node.Extremes; nil before the first row
	key  []byte
}

// mayHold reports whether a block with these zones may have a value that changes the result.
func (x *extremes) mayHold(zones store.Zone) bool {
	if x.accs == nil {
		return true
	}
	t := x.node.Table
	for i, e := range x.node.Extremes {
		c := &t.Columns[e.Ordinal]
		z, known := zones.Column(t.ZoneGroup(), uint64(c.ID))
		switch seen := x.accs[i].value; {
		case !known:
			return true
		case !z.Values:
			continue
		case seen.IsNull():
			return true
		default:
			var err error
			if x.key, err = c.AppendZone(x.key[:0], seen); err != nil {
				return true
			}
		}
		if e.Max && above(z.Max(), x.key) || !e.Max && bytes.Compare(z.Min(), x.key) < 0 {
			return true
		}
	}
	return false
}

// above reports whether a value that begins with bound may be greater than key. No encoding begins
// with another one.
func above(bound, key []byte) bool {
	n := min(len(bound), len(key))
	c := bytes.Compare(bound[:n], key[:n])
	return c > 0 || c == 0 && len(bound) < len(key)
}
