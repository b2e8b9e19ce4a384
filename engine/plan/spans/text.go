package spans

import (
	"bytes"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// Condition returns what a span demands of the columns of its key, for people: the columns
// that are fixed, and the limits of the next one. Where limits are no values of columns,
// the condition is about encoded bytes, as that of a function "encoded".
func (k *Key) Condition(s Span) expr.Expr {
	var terms []expr.Expr
	lo := s.Lo
	for i := range min(s.Points, len(k.Fields)) {
		v, rest, err := k.decode(i, lo)
		if err != nil {
			break
		}
		lo = rest
		if v.IsNull() {
			terms = append(terms, expr.IsNull{X: k.column(i)})
		} else {
			terms = append(terms, expr.Cmp{Op: expr.Eq, L: k.column(i), R: expr.Const{Value: v}})
		}
	}
	if s.Points < len(k.Fields) {
		terms = append(terms, k.limits(s, s.Lo[:len(s.Lo)-len(lo)], lo)...)
	}
	if len(terms) == 0 {
		return True
	}
	return expr.AllOf(terms)
}

func (k *Key) column(i int) expr.Expr {
	f := &k.Fields[i]
	return expr.Column{Source: k.Source, Ordinal: k.Ordinals[i], Name: f.Name,
		Collation: f.Collation}
}

func (k *Key) decode(i int, b []byte) (expr.Value, []byte, error) {
	decoded, rest, err := k.Fields[i].Decode(b)
	if err != nil {
		return expr.Value{}, nil, err
	}
	v, err := expr.From(decoded)
	return v, rest, err
}

// limits returns the conditions on the first column that is not fixed. Lo is what stands
// after the encodings of the fixed ones, head.
func (k *Key) limits(s Span, head, lo []byte) []expr.Expr {
	i := s.Points
	f := &k.Fields[i]
	var hi []byte
	whole := !bytes.HasPrefix(s.Hi, head) || s.Hi == nil // up to the end of the column
	if !whole {
		hi = s.Hi[len(head):]
	}
	if e, ok := k.begins(i, lo, hi, whole); ok {
		return []expr.Expr{e}
	}
	noNull := !f.Nullable || k.cutsNull(f, &lo, &hi, &whole)
	var terms []expr.Expr
	low, high := expr.Ge, expr.Lt
	if f.Desc {
		low, high = expr.Le, expr.Gt
	}
	if len(lo) > 0 {
		terms = append(terms, k.limit(i, lo, low))
	}
	if !whole {
		terms = append(terms, k.limit(i, hi, high))
	}
	switch {
	case !noNull && len(terms) > 0:
		return []expr.Expr{expr.Or{Terms: append(terms, expr.IsNull{X: k.column(i)})}}
	case noNull && f.Nullable && len(terms) == 0:
		return []expr.Expr{expr.IsNull{X: k.column(i), Not: true}}
	}
	return terms
}

// cutsNull removes limits that only keep NULLs out, and reports whether NULLs are out.
func (k *Key) cutsNull(f *keycodec.Field, lo, hi *[]byte, whole *bool) bool {
	marker := keycodec.AppendNotNull(nil)
	if f.Desc {
		keycodec.InvertFrom(marker, 0)
	}
	switch {
	case !f.NullsLast && bytes.Equal(*lo, marker):
		*lo = nil
		return true
	case !f.NullsLast:
		if bytes.Equal(*lo, []byte{marker[0] - 1}) { // NULL itself
			*lo = nil
		}
		return len(*lo) > 0
	case !*whole && bytes.Equal(*hi, []byte{marker[0] + 1}):
		*whole = true
		return true
	}
	if bytes.Equal(*hi, []byte{marker[0] + 2}) { // after NULL
		*whole = true
	}
	return !*whole
}

// limit returns the condition that the column compares with a cut. op is that of a cut
// right before a value; right after one it includes or excludes the value instead.
func (k *Key) limit(i int, cut []byte, op expr.Op) expr.Expr {
	if v, rest, err := k.decode(i, cut); err == nil && len(rest) == 0 {
		return expr.Cmp{Op: op, L: k.column(i), R: expr.Const{Value: v}}
	}
	opposite := [...]expr.Op{expr.Ge: expr.Gt, expr.Gt: expr.Ge, expr.Le: expr.Lt,
		expr.Lt: expr.Le}[op]
	if v, ok := k.valueBefore(i, cut); ok {
		return expr.Cmp{Op: opposite, L: k.column(i), R: expr.Const{Value: v}}
	}
	// Bytes sort the same way whatever the direction of the column.
	if k.Fields[i].Desc {
		op = op.Swap()
	}
	encoded := expr.Func{Name: "encoded", Args: []expr.Expr{k.column(i)}}
	return expr.Cmp{Op: op, L: encoded, R: expr.Const{Value: expr.Bytes(cut)}}
}

// valueBefore returns the value whose encoding the cut stands right after: its last byte
// is one less, and bytes FF after that have been cut off.
func (k *Key) valueBefore(i int, cut []byte) (expr.Value, bool) {
	if len(cut) == 0 || cut[len(cut)-1] == 0 {
		return expr.Value{}, false
	}
	b := bytes.Clone(cut)
	b[len(b)-1]--
	for range 17 {
		if v, rest, err := k.decode(i, b); err == nil && len(rest) == 0 {
			return v, true
		}
		b = append(b, 0xff)
	}
	return expr.Value{}, false
}

// begins recognises the range of the texts that begin with one.
func (k *Key) begins(i int, lo, hi []byte, whole bool) (expr.Expr, bool) {
	f := k.Fields[i]
	if f.Type != keycodec.TypeString && f.Type != keycodec.TypeBytes {
		return nil, false
	}
	end, ok := keycodec.PrefixEnd(nil, lo)
	if ok == whole || !bytes.Equal(end, hi) {
		return nil, false
	}
	terminator := []byte{0, 0}
	if f.Desc {
		keycodec.InvertFrom(terminator, 0)
	}
	// With a terminator the beginning is a text.
	v, rest, err := k.decode(i, append(bytes.Clone(lo), terminator...))
	if err != nil || len(rest) > 0 || v.Len() == 0 {
		return nil, false
	}
	return expr.BeginsWith{X: k.column(i), Prefix: expr.Const{Value: v}}, true
}
