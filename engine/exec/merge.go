package exec

import (
	"iter"

	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/internal/merge"
	"github.com/kstonedb/kstone/keycodec"
)

// readMerged merges streams by what follows their prefixes.
func (a *access) readMerged(s *sink) error {
	return a.merge(s.put, func(st *plan.Stream) iter.Seq2[store.Item, error] {
		return func(yield func(store.Item, error) bool) {
			var failed error
			err := a.one(st, items(&failed, func(it store.Item) bool { return yield(it, nil) }))
			if err = first(failed, err); err != nil {
				yield(store.Item{}, err)
			}
		}
	})
}

// merge puts the items of all streams in order; those that compare equal in the order of the
// plan.
func (a *access) merge(put func(store.Item) bool,
	items func(*plan.Stream) iter.Seq2[store.Item, error]) error {
	streams := a.node.Streams
	seqs := make([]iter.Seq2[store.Item, error], len(streams))
	for i := range streams {
		seqs[i] = items(&streams[i])
	}
	union := merge.Union(seqs, a.node.Reverse, func(dst []byte, i int, it *store.Item) []byte {
		return appendMergeKey(dst, &streams[i], &it.Key)
	})
	for it, err := range union {
		if err != nil {
			return err
		}
		if !put(it) {
			return nil
		}
	}
	return nil
}

// appendMergeKey appends what items of a stream are compared by: what follows the prefix in
// the sort key or, in a stream of partition keys, in the whole key.
func appendMergeKey(dst []byte, st *plan.Stream, key *store.Key) []byte {
	if st.PK != nil {
		return append(dst, key.SK[min(st.Prefix, len(key.SK)):]...)
	}
	dst = keycodec.AppendOrderedPK(dst, key.PK[min(st.Prefix, len(key.PK)):])
	return append(dst, key.SK...)
}
