package etcd

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	client "go.etcd.io/etcd/client/v3"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
)

// What a transaction has read is proven by the comparisons of the one request that writes:
//
//   - a key has the revision that it had, 0 if it was absent;
//   - no key of a range has a revision above that of the transaction: nothing was put into it;
//   - each key that the range had is there still: nothing was deleted from it.
//
// The naive way leaves out the last. Why it fails: etcd keeps nothing of a deletion that a
// comparison could see, so a range passes from which others have deleted.
//
// A request has 128 comparisons at most, and a range may have more items. Then the proof is a
// coarser one, which never passes where the exact one would not. Each commit that deletes something
// also writes the trace, one key for all (remote.Layout.TraceKey). That it has no revision above
// that of the transaction proves that nothing was deleted anywhere, so the ranges need no proof of
// what they had, and neighbouring ranges and keys can be proven as one range with what is between
// them. So a transaction may read as much as it likes; if it reads more than about a hundred items,
// any deletion meanwhile is a conflict.

// base is the revision that a transaction reads.
type base struct{ view }

// Begin implements store.Transactor.
func (s *Store) Begin(ctx context.Context, o *store.TxOptions) (store.Tx, error) {
	if err := s.CheckCall(ctx); err != nil {
		return nil, err
	}
	return remote.Begin(s.Reader, &base{view{s: s}}, s.Limits(), o)
}

// Update implements store.Transactor.
func (s *Store) Update(ctx context.Context, fn func(store.Tx) error) error {
	return remote.Update(ctx, s.Begin, fn)
}

// Commit implements remote.Base.
func (b *base) Commit(ctx context.Context, reads *remote.Reads, all []remote.Write) error {
	if err := b.s.Check(); err != nil {
		return err
	}
	compare, exact := b.proofs(reads)
	if !exact || len(compare) > b.s.o.txnOps() {
		compare = b.coarseProofs(reads)
	}
	puts := b.s.writes(all)
	if err := b.s.checkSize(compare, puts, nil); err != nil {
		return err
	}
	ctx, cancel := b.s.Within(ctx)
	defer cancel()
	failed, err := b.s.transact(ctx, compare, puts, nil)
	if err == nil && failed != nil {
		err = fmt.Errorf("etcd: commit: %w: what the transaction has read was changed",
			store.ErrConflict)
	}
	return err
}

// proofs returns comparisons of what was read. They are not exact if there would be too many.
func (b *base) proofs(reads *remote.Reads) (out []client.Cmp, exact bool) {
	for key, read := range reads.Keys {
		out = append(out, client.Compare(client.ModRevision(key), "=", int64(read.Version)))
	}
	exact = true
	for i := range reads.Ranges {
		r := &reads.Ranges[i]
		out = append(out, b.unchanged(r.Start, r.End))
		exact = exact && r.Sum.Len() == len(r.Pairs)
		for _, p := range r.Pairs {
			if _, ok := reads.Keys[string(p.Key)]; !ok {
				out = append(out, client.Compare(client.CreateRevision(string(p.Key)), ">", 0))
			}
		}
	}
	return out, exact
}

// unchanged compares the revisions of what a range has now.
func (b *base) unchanged(start, end []byte) client.Cmp {
	return client.Compare(client.ModRevision(string(start)), "<", b.rev+1).WithRange(string(end))
}

// coarseProofs returns comparisons of ranges that have everything that was read between them. They
// are divided where keys next to each other have least in common.
func (b *base) coarseProofs(reads *remote.Reads) []client.Cmp {
	trace := b.s.Layout.TraceKey()
	out := []client.Cmp{b.unchanged(trace, next(trace))}
	spans := make([]remote.Span, 0, len(reads.Keys)+len(reads.Ranges))
	for key := range reads.Keys {
		spans = append(spans, remote.Span{Start: []byte(key), End: next([]byte(key))})
	}
	for i := range reads.Ranges {
		spans = append(spans, remote.Span{Start: reads.Ranges[i].Start, End: reads.Ranges[i].End})
	}
	slices.SortFunc(spans, func(a, b remote.Span) int { return bytes.Compare(a.Start, b.Start) })
	first := make([]int, len(spans)) // of a range: in the order of what they have in common
	for i := range first {
		first[i] = i
	}
	slices.SortStableFunc(first[1:], func(i, j int) int {
		return cmp.Compare(common(spans, i), common(spans, j))
	})
	first = first[:min(len(first), b.s.o.txnOps()-len(out))]
	slices.Sort(first)
	for k, i := range first {
		to := len(spans)
		if k+1 < len(first) {
			to = first[k+1]
		}
		end := spans[i].End
		for _, s := range spans[i:to] { // a key may be within a range
			if bytes.Compare(s.End, end) > 0 {
				end = s.End
			}
		}
		out = append(out, b.unchanged(spans[i].Start, end))
	}
	return out
}

// next returns the first key after key.
func next(key []byte) []byte { return append(slices.Clip(key), 0) }

// common returns how many bytes a span has in common with the one before it.
func common(spans []remote.Span, i int) (n int) {
	a, b := spans[i-1].Start, spans[i].Start
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
