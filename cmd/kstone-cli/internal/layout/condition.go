package layout

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/keycodec"
)

// Op is the operator of a condition on the sort key.
type Op uint8

// The operators. All compare in the order of the keys, so a descending field turns
// them around.
const (
	Any          Op = iota
	Equal           // = A
	Less            // < A
	LessEqual       // <= A
	Greater         // > A
	GreaterEqual    // >= A
	Between         // A <= sort key <= B
	BeginsWith      // begins with A
)

// Condition is a condition on the sort key as it was given on a command line. For a
// sort key of several fields the operands may name only the first ones; (a) <= (b)
// then compares just these.
type Condition struct {
	Op     Op
	A, B   Arg
	Prefix []Arg // the first fields must equal these; A and B are about the next ones
}

// Range is a condition in the terms of the engine.
type Range struct {
	SK engine.SKCondition
	// Filter, if not nil, must accept an item, too.
	Filter func(engine.Item) bool
}

// Range translates a condition.
func (s *Schema) Range(c Condition) (Range, error) {
	switch {
	case s != nil && len(s.sk.fields) == 0 && (c.Op != Any || len(c.Prefix) > 0):
		return Range{}, errNoSK
	case s == nil && len(c.Prefix) > 0:
		return Range{}, errPlain
	case s == nil || s.sk.raw && len(c.Prefix) == 0 || c.A.Stored || c.B.Stored:
		if len(c.Prefix) > 0 {
			return Range{}, usage("--sk-prefix and operands in stored form exclude each other")
		}
		return plainRange(c), nil
	case s.sk.raw:
		if c.Op != Any || len(c.Prefix) > 1 {
			return Range{}, usage("the sort key has one field (%s);"+
				" --sk-prefix takes nothing beside it",
				s.sk.fields[0].Name)
		}
		return Range{SK: engine.SKEqual(notNil(c.Prefix[0].Bytes))}, nil
	}
	return s.sk.typedRange(c)
}

func plainRange(c Condition) Range {
	switch c.Op {
	case Equal:
		return Range{SK: engine.SKEqual(c.A.Bytes)}
	case Less:
		return Range{SK: engine.SKLess(c.A.Bytes)}
	case LessEqual:
		return Range{SK: engine.SKLessEqual(c.A.Bytes)}
	case Greater:
		return Range{SK: engine.SKGreater(c.A.Bytes)}
	case GreaterEqual:
		return Range{SK: engine.SKGreaterEqual(c.A.Bytes)}
	case Between:
		return Range{SK: engine.SKBetween(c.A.Bytes, c.B.Bytes)}
	case BeginsWith:
		return Range{SK: engine.SKBeginsWith(c.A.Bytes)}
	}
	return Range{}
}

// typedRange translates a condition on an encoded sort key. Every condition is a
// half-open range of encoded keys, because the encoding sorts and no key is a prefix
// of another.
func (p *part) typedRange(c Condition) (Range, error) {
	prefix, err := p.prefixValues(c.Prefix)
	if err != nil {
		return Range{}, err
	}
	if c.Op == Any && len(prefix) == 0 {
		return Range{}, nil
	}
	base, err := p.AppendPrefix([]byte{}, prefix...)
	if err != nil {
		return Range{}, usage("%v", err)
	}
	switch c.Op {
	case Any:
		return Range{SK: engine.SKBeginsWith(base)}, nil
	case BeginsWith:
		return p.beginsWith(prefix, c.A)
	}
	a, n, err := p.operand(prefix, c.A)
	if err != nil {
		return Range{}, err
	}
	if c.Op == Equal {
		if n < len(p.fields) {
			return Range{}, usage("the sort key has %d fields (%s), %d given; for an equal"+
				" beginning use --sk-prefix", len(p.fields), strings.Join(fieldNames(*p), ", "), n)
		}
		return Range{SK: engine.SKEqual(a)}, nil
	}
	lo, hi := base, prefixEnd(base)
	switch c.Op {
	case Less:
		hi = a
	case LessEqual:
		hi = prefixEnd(a)
	case Greater:
		if lo = prefixEnd(a); lo == nil {
			return halfOpen([]byte{1}, []byte{0}), nil // above all keys
		}
	case GreaterEqual:
		lo = a
	case Between:
		b, _, err := p.operand(prefix, c.B)
		if err != nil {
			return Range{}, err
		}
		lo, hi = a, prefixEnd(b)
	}
	return halfOpen(lo, hi), nil
}

// operand encodes the prefix and an operand after it; n counts the fields of both.
func (p *part) operand(prefix []any, arg Arg) (key []byte, n int, err error) {
	values, err := p.values(len(prefix), arg)
	if err != nil {
		return nil, 0, err
	}
	values = append(prefix[:len(prefix):len(prefix)], values...)
	key, err = p.AppendPrefix([]byte{}, values...)
	if err != nil {
		return nil, 0, usage("%v", err)
	}
	return key, len(values), nil
}

func (p *part) beginsWith(prefix []any, arg Arg) (Range, error) {
	values, err := p.values(len(prefix), arg)
	if err != nil {
		return Range{}, err
	}
	key, err := p.AppendBeginsWith([]byte{}, append(prefix[:len(prefix):len(prefix)], values...)...)
	if err != nil {
		return Range{}, usage("%s is not a text: begins-with makes no sense there",
			p.fields[len(prefix)+len(values)-1].Name)
	}
	return Range{SK: engine.SKBeginsWith(key)}, nil
}

// prefixEnd returns the end of the keys that start with p, or nil.
func prefixEnd(p []byte) []byte {
	end, ok := keycodec.PrefixEnd(nil, p)
	if !ok {
		return nil
	}
	return end
}

// halfOpen returns the condition lo <= sort key < hi; nil hi means no upper bound. The
// engine's between includes its upper end, which is one key that the filter takes out.
func halfOpen(lo, hi []byte) Range {
	switch {
	case hi == nil:
		return Range{SK: engine.SKGreaterEqual(lo)}
	case len(lo) == 0:
		return Range{SK: engine.SKLess(hi)}
	}
	return Range{
		SK:     engine.SKBetween(lo, hi),
		Filter: func(it engine.Item) bool { return !bytes.Equal(it.Key.SK, hi) },
	}
}

// SplitBetween cuts the two operands out of "A,B". If one of them contains a comma,
// both have to be written as a JSON array.
func SplitBetween(text string) (a, b string, err error) {
	var elements []json.RawMessage
	if isArray([]byte(text), &elements) && len(elements) == 2 {
		return elementText(elements[0]), elementText(elements[1]), nil
	}
	if strings.Count(text, ",") != 1 {
		return "", "", usage(`--sk-between takes two values, "A,B"; if they contain commas,`+
			` write '["A","B"]' (got %q)`, text)
	}
	a, b, _ = strings.Cut(text, ",")
	return a, b, nil
}

// elementText returns a string without its quotes and other JSON as it is.
func elementText(element json.RawMessage) string {
	var text string
	if json.Unmarshal(element, &text) == nil {
		return text
	}
	return string(element)
}

// NextParts returns the range after all sort keys that begin like sk in its first n
// fields; ok is false if there can be none. It serves to walk over the different
// values of a field.
func (s *Schema) NextParts(sk []byte, n int) (r Range, ok bool) {
	size, err := s.sk.PrefixLen(sk, n)
	if err != nil {
		return Range{}, false
	}
	end := prefixEnd(sk[:size])
	return Range{SK: engine.SKGreaterEqual(end)}, end != nil
}

// PKRange returns the half-open range of the partition keys from one to another, both included,
// that begin with a prefix; a nil argument is no bound, nor is a nil end. Arguments may name the
// first fields of a key that has several.
func (s *Schema) PKRange(prefix, from, to *Arg) (lo, hi []byte, err error) {
	if prefix != nil {
		if lo, err = s.pkBound(*prefix, true); err != nil {
			return nil, nil, err
		}
		hi = prefixEnd(lo)
	}
	if from != nil {
		bound, err := s.pkBound(*from, false)
		if err != nil {
			return nil, nil, err
		}
		if bytes.Compare(bound, lo) > 0 {
			lo = bound
		}
	}
	if to != nil {
		end, err := s.pkBound(*to, false)
		if err != nil {
			return nil, nil, err
		}
		if s == nil || to.Stored || s.pk.raw {
			end = append(bytes.Clone(end), 0) // the next key
		} else {
			end = prefixEnd(end)
		}
		if hi == nil || end != nil && bytes.Compare(end, hi) < 0 {
			hi = end
		}
	}
	return lo, hi, nil
}

// pkBound returns the bytes with which the partition keys begin that an argument means. As a
// prefix its last field may be cut off anywhere.
func (s *Schema) pkBound(arg Arg, prefix bool) (key []byte, err error) {
	if s == nil || arg.Stored || s.pk.raw {
		return arg.Bytes, nil
	}
	if !prefix {
		key, _, err = s.pk.operand(nil, arg)
		return key, err
	}
	values, err := s.pk.values(0, arg)
	if err == nil {
		key, err = s.pk.AppendBeginsWith([]byte{}, values...)
	}
	if err != nil {
		return nil, usage("%v", err)
	}
	return key, nil
}
