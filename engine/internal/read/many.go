package read

import (
	"context"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// LookupMany looks keys up, all at one moment, and calls take with those of one group after the
// other: their Index is the number of the key. It is faster than as many Lookups, since each
// filter and index is used for several keys. If most are expected to be there, it asks fewer
// filters. Without values those may be nil. An error about a key is a *KeyError.
//
// Ownership: the lookups are valid during the call of take, their values stay.
func (r *Reader) LookupMany(
	ctx context.Context, keys []keycodec.Key, expected, values bool,
	take func(found []base.Lookup, nowMs int64),
) error {
	l := getLookups()
	defer putLookups(l)
	if err := l.take(keys); err != nil {
		return err
	}
	l.batch.Expected, l.batch.NoValues = expected, !values
	if err := l.begin(r); err != nil {
		return err
	}
	defer l.end()
	for l.next(ctx, &l.lane) {
		take(l.list, l.clock(l.list))
	}
	return l.err
}

// LookupLocked finds the live version of e.Key, a key of stripe id, and reports whether there is
// one. Without value that may be nil. Requires: the stripe is locked.
func (s *State) LookupLocked(id uint8, value bool, e *base.Entry) (live bool, err error) {
	found, err := lookUp(&s.env.Stripes[id], e.Key, s.Hash(e.Key), base.MaxSeqNum, value, e)
	if err != nil {
		return false, s.Error(err)
	}
	if !found {
		return false, nil
	}
	r := s.Reader(nil, nil)
	return r.live(e), nil
}

// LookupManyLocked looks up the present versions of n keys in ordered form: key i is of a stripe,
// at a place in text. It calls take as LookupMany does. Requires: their stripes are locked.
func (s *State) LookupManyLocked(
	ctx context.Context, n int, values bool, text []byte,
	at func(i int) (id uint8, from, to uint32),
	take func(found []base.Lookup, nowMs int64),
) error {
	l := getLookups()
	defer putLookups(l)
	l.batch.NoValues = !values
	l.takeOrdered(n, text, at)
	l.beginAt(s, base.MaxSeqNum)
	for l.next(ctx, &l.lane) {
		take(l.list, l.clock(l.list))
	}
	return l.err
}
