package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/merge"
	"github.com/kstonedb/kstone/keycodec/composite"
)

// Match is a record that was found. In an iteration its slices are valid in the loop body
// only and must not be modified; Clone keeps it.
type Match struct {
	// Key is the composite key that it was found by.
	Key []byte
	// Payload is what was put.
	Payload []byte

	index *Index
}

// Fields returns the values of the fields of the key it was found by.
func (m Match) Fields() (map[string]any, error) {
	values, err := m.index.Keys.Decode(m.Key)
	if err != nil {
		return nil, fmt.Errorf("access: index %q: %w", m.index.Name, err)
	}
	fields := make(map[string]any, len(values))
	for i, f := range m.index.Keys.Fields() {
		fields[f.Name] = values[i]
	}
	return fields, nil
}

// Clone returns a copy that the caller owns.
func (m Match) Clone() Match {
	m.Key, m.Payload = bytes.Clone(m.Key), bytes.Clone(m.Payload)
	return m
}

// ExactLookup returns the record with this key. Fields must be those of the primary key
// or of a parallel one, no more. It fails with engine.ErrNotFound if there is none.
//
// Ownership: the match is the caller's.
func (c *Collection) ExactLookup(fields map[string]any) (Match, error) {
	i, values, err := c.chooseWhole(fields)
	if err != nil {
		return Match{}, err
	}
	index := &c.indexes[i]
	key, err := index.Keys.Append(make([]byte, 0, index.Keys.Size()), values...)
	if err != nil {
		return Match{}, fmt.Errorf("access: index %q: %w", index.Name, err)
	}
	if i == 0 {
		value, err := c.db.Get(index.key(key))
		if err != nil {
			return Match{}, err
		}
		return c.match(0, key, value)
	}
	snap, err := c.db.Snapshot() // both reads at one moment
	if err != nil {
		return Match{}, err
	}
	defer snap.Close() //nolint:errcheck // gives up a number, cannot fail
	if _, err := snap.Get(index.key(key)); err != nil {
		return Match{}, err
	}
	return c.follow(snap, i, key)
}

// match returns the record with this key of an index and the value of its primary key.
func (c *Collection) match(i int, key, value []byte) (Match, error) {
	_, payload, err := c.split(value)
	return Match{key, payload, &c.indexes[i]}, err
}

// follow returns the record that a parallel key leads to.
func (c *Collection) follow(snap *engine.Snapshot, i int, key []byte) (Match, error) {
	index := &c.indexes[i]
	values, err := index.Keys.Decode(key)
	if err != nil {
		return Match{}, fmt.Errorf("access: index %q: %w", index.Name, err)
	}
	primary := make([]any, len(c.toPrimary[i]))
	for j, at := range c.toPrimary[i] {
		primary[j] = values[at]
	}
	main, err := c.indexes[0].Keys.Append(nil, primary...)
	if err != nil {
		return Match{}, err
	}
	value, err := snap.Get(c.indexes[0].key(main))
	if errors.Is(err, engine.ErrNotFound) {
		err = corrupt.New("", -1, "index "+index.Name, "a record for each key", err)
	}
	if err != nil {
		return Match{}, err
	}
	return c.match(i, key, value)
}

// PrefixScan returns the records whose fields have these values, in the order of the key
// that begins with the fields; at most limit, 0 for all. Of several such keys the one
// given first to Open is taken. All records are read at one moment. The iteration ends
// with the first error.
func (c *Collection) PrefixScan(ctx context.Context, equal map[string]any,
	limit int) iter.Seq2[Match, error] {
	i, values, err := c.choose(equal, "")
	if err != nil {
		return fail(err)
	}
	spans, err := c.indexes[i].Keys.Prefix(values...)
	return c.scan(ctx, i, spans, limit, err)
}

// RangeScan is PrefixScan for records whose field of that name also lies between lo and
// hi, in the order of that field.
func (c *Collection) RangeScan(ctx context.Context, equal map[string]any, field string,
	lo, hi composite.Bound, limit int) iter.Seq2[Match, error] {
	i, values, err := c.choose(equal, field)
	if err != nil {
		return fail(err)
	}
	spans, err := c.indexes[i].Keys.Range(values, lo, hi)
	return c.scan(ctx, i, spans, limit, err)
}

func fail(err error) iter.Seq2[Match, error] {
	return func(yield func(Match, error) bool) { yield(Match{}, err) }
}

// scan returns the records of the spans.
func (c *Collection) scan(ctx context.Context, i int, spans []composite.Span, limit int,
	err error) iter.Seq2[Match, error] {
	if err == nil && limit < 0 {
		err = fmt.Errorf("access: the limit %d is negative", limit)
	}
	if err != nil {
		return fail(err)
	}
	return func(yield func(Match, error) bool) {
		snap, err := c.db.Snapshot()
		if err != nil {
			yield(Match{}, err)
			return
		}
		defer snap.Close() //nolint:errcheck // gives up a number, cannot fail
		n := 0
		for item, err := range c.items(ctx, snap, i, spans, limit) {
			var m Match
			switch {
			case err != nil:
			case i == 0:
				m, err = c.match(0, item.Key.SK, item.Value)
			default:
				m, err = c.follow(snap, i, item.Key.SK)
			}
			if err != nil {
				yield(Match{}, err)
				return
			}
			if !yield(m, nil) {
				return
			}
			if n++; n == limit {
				return
			}
		}
	}
}

// items returns the items of the spans, ordered by what stands behind the shard.
func (c *Collection) items(ctx context.Context, snap *engine.Snapshot, i int,
	spans []composite.Span, limit int) iter.Seq2[engine.Item, error] {
	switch len(spans) {
	case 0:
		return func(func(engine.Item, error) bool) {}
	case 1:
		return c.walk(ctx, snap, i, spans[0], limit)
	}
	seqs := make([]iter.Seq2[engine.Item, error], len(spans))
	for j, span := range spans {
		seqs[j] = c.walk(ctx, snap, i, span, limit)
	}
	return merge.Union(seqs, false, func(dst []byte, _ int, item *engine.Item) []byte {
		return append(dst, item.Key.SK[2:]...)
	})
}

// walk returns the items of one span: a range of one partition.
func (c *Collection) walk(ctx context.Context, snap *engine.Snapshot, i int,
	span composite.Span, limit int) iter.Seq2[engine.Item, error] {
	q := engine.Query{PK: c.indexes[i].pk(span.Start), Limit: limit}
	switch {
	case span.End != nil:
		q.SK = engine.SKBetween(span.Start, span.End)
	case len(span.Start) > 0:
		q.SK = engine.SKGreaterEqual(span.Start)
	}
	return func(yield func(engine.Item, error) bool) {
		for item, err := range snap.Query(ctx, q) {
			if err == nil && span.End != nil && bytes.Equal(item.Key.SK, span.End) {
				return // the end is not part of the span
			}
			if !yield(item, err) {
				return
			}
		}
	}
}
