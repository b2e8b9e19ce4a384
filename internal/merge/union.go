package merge

import (
	"iter"

	"github.com/kstonedb/kstone/internal/base"
)

// Union returns the items of all sequences in one order: ascending by key, or descending
// with reverse, as those of each sequence must be. Items with equal keys come in the order
// of their sequences. key appends to dst what is compared of an item of sequence i. The
// union ends with the first error. An item is valid in the loop body.
func Union[T any](
	seqs []iter.Seq2[T, error], reverse bool, key func(dst []byte, i int, item *T) []byte,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var m Merge
		m.Init(Options{Reverse: reverse, Versions: true})
		pulled := make([]pull[T], len(seqs))
		for i, seq := range seqs {
			p := &pulled[i]
			p.key = func(dst []byte) []byte { return key(dst, i, &p.item) }
			p.next, p.stop = iter.Pull2(seq)
			defer p.stop()
			*m.Add() = Input{Source: p, Age: int32(i)}
		}
		for len(m.Rows()) > 0 {
			_, i := m.From()
			if !yield(pulled[i].item, nil) {
				return
			}
		}
		if err := m.Err(); err != nil {
			var none T
			yield(none, err)
		}
	}
}

// pull is a sequence as a source of rows of one.
type pull[T any] struct {
	next func() (T, error, bool)
	stop func()
	key  func(dst []byte) []byte
	item T
	err  error
	row  [1]base.Entry
}

// Rows implements cursor.Source.
func (p *pull[T]) Rows() []base.Entry {
	var ok bool
	if p.item, p.err, ok = p.next(); !ok || p.err != nil {
		return nil
	}
	p.row[0].Key = p.key(p.row[0].Key[:0])
	return p.row[:]
}

// Err implements cursor.Source.
func (p *pull[T]) Err() error { return p.err }
