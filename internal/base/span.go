package base

import "bytes"

// Span is the half-open range [Lo, Hi) of ordered keys. A nil Hi is no upper bound.
type Span struct{ Lo, Hi []byte }

// Empty reports whether no key is in the span.
func (s Span) Empty() bool { return s.Hi != nil && bytes.Compare(s.Lo, s.Hi) >= 0 }

// Clone returns a copy that shares no memory with s.
func (s Span) Clone() Span { return Span{bytes.Clone(s.Lo), bytes.Clone(s.Hi)} }
