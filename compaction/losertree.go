package compaction

import (
	"bytes"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/cursor"
)

// input is one source with its entry in a form that compares fast.
type input struct {
	src   cursor.Source
	entry *base.Entry // nil at the end
	rest  []byte      // the key without the shared prefix
	head  uint64      // first 8 bytes of rest, big-endian, padded with zeros
}

// loserTree merges k inputs with about log2(k) comparisons per entry (Knuth, The
// Art of Computer Programming, volume 3, section 5.4.1). Most comparisons look at
// two heads only.
type loserTree struct {
	in     []input
	losers []int32 // node i has the children 2i and 2i+1; input j is the leaf k+j
	top    int32   // the winner of all, -1 if there are no inputs
	prefix int
	err    error
}

func (t *loserTree) init(sources []cursor.Source, prefix int) {
	t.in = make([]input, len(sources))
	t.losers = make([]int32, len(sources))
	t.prefix = prefix
	t.top = -1
	for i, s := range sources {
		t.in[i].src = s
		t.advance(&t.in[i])
	}
	if len(sources) > 0 {
		t.top = t.play(1)
	}
}

// play fills the nodes below i and returns the winner among their leaves.
func (t *loserTree) play(i int) int32 {
	k := len(t.in)
	if i >= k {
		return int32(i - k)
	}
	a, b := t.play(2*i), t.play(2*i+1)
	if t.less(b, a) {
		a, b = b, a
	}
	t.losers[i] = b
	return a
}

// winner returns the input with the lowest entry, nil at the end or on an error.
func (t *loserTree) winner() *input {
	if t.top < 0 || t.err != nil || t.in[t.top].entry == nil {
		return nil
	}
	return &t.in[t.top]
}

// next moves the winner on and plays its way to the top again.
func (t *loserTree) next() {
	w := t.top
	t.advance(&t.in[w])
	for i := (int(w) + len(t.in)) / 2; i > 0; i /= 2 {
		if l := t.losers[i]; t.less(l, w) {
			t.losers[i], w = w, l
		}
	}
	t.top = w
}

func (t *loserTree) advance(in *input) {
	if !in.src.Next() {
		in.entry, in.head, in.rest = nil, ^uint64(0), nil
		if err := in.src.Err(); err != nil && t.err == nil {
			t.err = err
		}
		return
	}
	in.entry = in.src.Entry()
	in.rest = in.entry.Key[min(t.prefix, len(in.entry.Key)):]
	in.head = base.KeyHead(in.rest)
}

// less orders by key, then newest version first, then newest source first. Inputs
// at their end come last.
func (t *loserTree) less(a, b int32) bool {
	x, y := &t.in[a], &t.in[b]
	if x.head != y.head {
		return x.head < y.head
	}
	if x.entry == nil || y.entry == nil {
		return y.entry == nil
	}
	if c := bytes.Compare(x.rest, y.rest); c != 0 {
		return c < 0
	}
	if x.entry.Seq != y.entry.Seq {
		return x.entry.Seq > y.entry.Seq
	}
	return a < b
}
