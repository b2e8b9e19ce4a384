package exec

import (
	"bytes"
	"iter"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/plan/spans"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/keycodec"
)

// readSkipping reads one entry, or parts, of each value of the first key columns.
func (a *access) readSkipping(s *sink) error {
	s.single = true
	if a.node.Merge && len(a.node.Streams) > 1 {
		// Filters decide after the merge, so all items are handed on if there are any.
		whole := !a.filter.some && !a.residual.some
		return a.merge(s.put, func(st *plan.Stream) iter.Seq2[store.Item, error] {
			return func(yield func(store.Item, error) bool) {
				err := a.skip(st, func(it store.Item) (taken, more bool) {
					return whole, yield(it, nil)
				})
				if err != nil {
					yield(store.Item{}, err)
				}
			}
		})
	}
	for i := range a.node.Streams {
		err := a.skip(&a.node.Streams[i], func(it store.Item) (taken, more bool) {
			s.taken = false
			more = s.put(it)
			return s.taken, more
		})
		if err != nil || s.done {
			return err
		}
	}
	return nil
}

// skip walks the prefixes of one stream. Put reports whether the item became a row and
// whether more are wanted.
func (a *access) skip(st *plan.Stream, put func(store.Item) (taken, more bool)) error {
	fields, offset := a.skipFields(st)
	for _, rg := range st.Ranges {
		for {
			if err := first(check(a.ctx), a.meter.check(0)); err != nil {
				return err
			}
			prefix, err := a.firstPrefix(st, rg, fields, offset)
			if err != nil {
				return err
			}
			if prefix == nil {
				break
			}
			more, err := a.readPrefix(st, rg, prefix, put)
			if err != nil || !more {
				return err
			}
			if a.node.Reverse {
				rg.Hi = prefix
				continue
			}
			end, ok := keycodec.PrefixEnd(nil, prefix)
			if !ok {
				break
			}
			rg.Lo = end
		}
	}
	return nil
}

// skipFields returns the fields whose encodings make up a prefix, and how many bytes
// stand before them in the keys of the stream.
func (a *access) skipFields(st *plan.Stream) (fields []keycodec.Field, offset int) {
	t := a.node.Table
	fields = t.SearchKey(a.node.Index).Fields[:a.node.Skip.Columns]
	switch {
	case a.node.Spread() != nil:
		return fields, 0
	case st.PK == nil:
		return fields, len(t.AppendRowPrefix(nil))
	}
	return fields[len(t.PK):], 0
}

// rangeOf returns the store's range for a part of a stream.
func (a *access) rangeOf(st *plan.Stream, rg spans.Range) store.Range {
	if st.PK == nil {
		return a.interval(rg)
	}
	one := plan.Stream{PK: st.PK, Ranges: []spans.Range{rg}}
	return a.partition(&one)
}

// keyOf returns the part of an item's key that ranges of the stream are about.
func keyOf(st *plan.Stream, it store.Item) []byte {
	if st.PK == nil {
		return it.Key.PK
	}
	return it.Key.SK
}

// firstPrefix returns a copy of the prefix of the first item of a range, nil if there is
// no item.
func (a *access) firstPrefix(st *plan.Stream, rg spans.Range, fields []keycodec.Field,
	offset int) ([]byte, error) {
	if rg.Hi != nil && bytes.Compare(rg.Lo, rg.Hi) >= 0 {
		return nil, nil
	}
	r := a.rangeOf(st, rg)
	a.countSeeks(r)
	r.Limit = 1
	for it, err := range a.reader.Scan(a.ctx, r) {
		if err != nil {
			return nil, err
		}
		key := keyOf(st, it)
		rest := key[min(offset, len(key)):]
		for i := range fields {
			if rest, err = fields[i].Skip(rest); err != nil {
				return nil, err
			}
		}
		return bytes.Clone(key[:len(key)-len(rest)]), nil
	}
	return nil, nil
}

// readPrefix reads what is wanted of the items that begin with a prefix.
func (a *access) readPrefix(st *plan.Stream, within spans.Range, prefix []byte,
	put func(store.Item) (taken, more bool)) (more bool, err error) {
	parts := a.node.Skip.Ranges
	one := parts == nil
	if one {
		parts = []spans.Range{{}}
	}
	more = true
	for _, part := range parts {
		rg := narrow(within, prefix, part)
		if rg.Hi != nil && bytes.Compare(rg.Lo, rg.Hi) >= 0 {
			continue
		}
		var failed error
		err := a.scan(a.rangeOf(st, rg), items(&failed, func(it store.Item) bool {
			var taken bool
			taken, more = put(it)
			return more && !(one && taken)
		}))
		if err = first(failed, err); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// narrow returns the part of a range between prefix+part.Lo and prefix+part.Hi.
func narrow(within spans.Range, prefix []byte, part spans.Range) spans.Range {
	rg := spans.Range{Lo: append(bytes.Clone(prefix), part.Lo...)}
	if part.Hi != nil {
		rg.Hi = append(bytes.Clone(prefix), part.Hi...)
	} else {
		rg.Hi, _ = keycodec.PrefixEnd(nil, prefix)
	}
	if bytes.Compare(rg.Lo, within.Lo) < 0 {
		rg.Lo = within.Lo
	}
	if rg.Hi == nil || within.Hi != nil && bytes.Compare(within.Hi, rg.Hi) < 0 {
		rg.Hi = within.Hi
	}
	return rg
}
