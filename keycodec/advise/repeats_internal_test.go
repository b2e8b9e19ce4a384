package advise

import (
	"fmt"
	"hash/maphash"
	"strings"
	"testing"
)

// TestDistinctKeysAreBounded: beyond the limit the number of repeated keys is estimated, in
// bounded memory.
func TestDistinctKeysAreBounded(t *testing.T) {
	const limit, keys = 1 << 10, 200_000
	seed := maphash.MakeSeed()
	d := distinctKeys{limit: limit}
	hash := func(i int) uint64 { return maphash.Comparable(seed, i) }
	for i := range keys {
		d.add(hash(i))
		if i%4 == 0 {
			d.add(hash(i))
		}
		if len(d.counts) > limit {
			t.Fatalf("%d counts after %d keys", len(d.counts), i)
		}
	}
	// The standard deviation is 8 % at most: a quarter of 512 keys or more are repeated.
	if n, about := d.repeated(); about == "" || n < keys/4*6/10 || n > keys/4*14/10 {
		t.Errorf("%s%d keys are repeated, want about %d", about, n, keys/4)
	}
	exact := distinctKeys{limit: limit}
	for i := range 3 * limit {
		exact.add(hash(i % limit))
	}
	if n, about := exact.repeated(); n != 2*limit || about != "" {
		t.Errorf("%s%d keys are repeated, want %d", about, n, 2*limit)
	}
}

// TestUniqueAsFarAsCompared: where not all keys are compared, the report says of how many it
// speaks.
func TestUniqueAsFarAsCompared(t *testing.T) {
	r := &Report{Keys: make([]Key, 2)}
	p := &Repeats{hash: map[string]uint64{}, seed: maphash.MakeSeed(), keys: []keyRepeats{
		{fields: []string{"id"}, own: distinctKeys{limit: 8}},
		{fields: []string{"group"}, own: distinctKeys{limit: 8}, more: []string{"id"},
			with: []distinctKeys{{limit: 8}}},
	}}
	for i := range 1000 {
		p.Add([]Value{{"id", fmt.Append(nil, i)}, {"group", fmt.Append(nil, i%4)}})
	}
	p.Settle(r)
	for i, want := range []string{"have the same key, as far as one key in ",
		"add id, which leaves none, as far as one key in "} {
		if why := strings.Join(r.Keys[i].Why, "; "); !strings.Contains(why, want) {
			t.Errorf("%q, want %q", why, want)
		}
	}
}
