package storetest

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/kstonedb/kstone/engine/store"
)

// Select returns the items that a range covers at a time in Unix milliseconds, in its
// order, without regard of Limit. It says in the plainest way what a range means.
func Select(items map[string]store.Item, r store.Range, nowMs int64) []store.Item {
	var out []store.Item
	for _, it := range items {
		switch {
		case it.Expiry != 0 && nowMs >= it.Expiry:
		case !covers(&r, it.Key):
		case r.After.PK != nil && r.Kind != store.KindPoint && compare(&r, it.Key, r.After) <= 0:
		case r.Filter != nil && !r.Filter(it):
		default:
			out = append(out, it)
		}
	}
	slices.SortFunc(out, func(a, b store.Item) int { return compare(&r, a.Key, b.Key) })
	return out
}

// covers reports whether the range covers the key, wherever it begins.
func covers(r *store.Range, key store.Key) bool {
	switch r.Kind {
	case store.KindPoint:
		return bytes.Equal(key.PK, r.Key.PK) && bytes.Equal(key.SK, r.Key.SK)
	case store.KindInterval:
		return bytes.Compare(key.PK, r.From) >= 0 &&
			(r.To == nil || bytes.Compare(key.PK, r.To) < 0)
	}
	for i, pk := range r.PKs {
		if bytes.Equal(pk, key.PK) {
			spans := r.SpansOf(i)
			return len(spans) == 0 || key.SK != nil &&
				slices.ContainsFunc(spans, func(s store.Span) bool { return s.Contains(key.SK) })
		}
	}
	return false
}

// compare orders keys as the range returns them. What has no order is ordered by key.
func compare(r *store.Range, a, b store.Key) int {
	pk, sk := bytes.Compare(a.PK, b.PK), bytes.Compare(a.SK, b.SK)
	d := cmp.Or(pk, sk)
	if r.Kind == store.KindPartitions && !r.Unordered {
		d = cmp.Or(sk, pk)
	}
	if r.Reverse {
		d = -d
	}
	return d
}
