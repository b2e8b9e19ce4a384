package engine

import (
	"context"

	"github.com/kstonedb/kstone/engine/internal/kv"
	"github.com/kstonedb/kstone/internal/base"
)

// Results are the items that a MultiGet has found, in the order of its keys. The zero
// Results is ready; one that is used again saves its memory. It belongs to one goroutine
// at a time.
//
// Ownership: the items are valid until the Results are used again or released, and must
// not be modified. Item.Clone makes a copy to keep.
type Results = kv.Results

// MultiGet looks up many keys at once, all at the same moment: no commit lies between
// them. It is faster than as many calls of Get, and more so with more keys, since
// each filter and index is used for several keys, and each block that holds several of
// them is decoded once. The same key may be given more than once. Results are in the
// order of the keys, which they refer to: do not change the keys while r is in use. A
// key without item is not an error. After an error res is empty.
func (r *reader) MultiGet(ctx context.Context, keys []Key, res *Results) error {
	res.Release()
	if ctx == nil { // whether it has ended is looked at for each group of keys
		return errNoContext
	}
	kv.Prepare(res, keys)
	err := r.from.LookupMany(ctx, keys, res.Expected, true, func(found []base.Lookup, nowMs int64) {
		kv.Fill(res, found, nowMs)
	})
	if err != nil {
		res.Release()
		return readError(err)
	}
	return nil
}

// MultiHas reports for many keys at once whether each has an item, at the same moment for
// all. It returns dst, grown if needed, with one element for each key.
func (r *reader) MultiHas(ctx context.Context, keys []Key, dst []bool) ([]bool, error) {
	if ctx == nil {
		return dst, errNoContext
	}
	dst = sized(dst, len(keys))
	err := r.from.LookupMany(ctx, keys, false, false, func(found []base.Lookup, nowMs int64) {
		for i := range found {
			dst[found[i].Index] = found[i].Live(nowMs)
		}
	})
	if err != nil {
		err = readError(err)
	}
	return dst, err
}

// sized returns dst with n elements.
func sized(dst []bool, n int) []bool {
	if cap(dst) < n {
		return make([]bool, n)
	}
	return dst[:n]
}
