package remote

import "context"

// Pair is a stored key with its value. Value is nil if there is none.
type Pair struct {
	Key, Value []byte
	Version    uint64 // 0 if the store has none
}

// View reads encoded pairs as of one moment. Its methods are not called concurrently.
type View interface {
	// Get reads the pairs of keys, in their order, in as few waves of requests as the store needs.
	// A key may be given more than once.
	Get(ctx context.Context, keys [][]byte) ([]Pair, error)

	// Pages reads the beginnings of some ranges, in their order, likewise.
	Pages(ctx context.Context, spans []Span) ([]Page, error)
}

// Span is the range of keys from Start on and before End, in ascending or descending order. Both
// are given.
type Span struct {
	Start, End []byte
	Reverse    bool
	Limit      int  // greatest number of pairs, at least 1
	Last       bool // so many pairs are enough: the rest of the range is not read
}

// Page is the beginning of a range. The caller owns its pairs.
type Page struct {
	Pairs []Pair
	More  bool // there may be more pairs after those
}
