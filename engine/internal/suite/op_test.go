package suite_test

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/keycodec"
)

// op is one line of a program: an operation with all its arguments, which do not depend on
// what came before it. So a program that has lost other operations stays one.
//
// Its text is the kind and what differs from zero:
//
//	put key=p3/s04 bytes=120 ttl=20 if=absent level=sync
//	batch level=process: delete key=p1/s02; delete-range key=p2 sk=begins:s0
//	beside flush
//
// The kinds are those of drawer.op and drawer.write.
type op struct {
	Kind   string
	Beside bool // at the same time as the operations after it, in the order of such ones

	Key string // see keyOf; of some kinds several with commas between; a scan is to start after it
	SK  string // a condition on sort keys, see sortCondition; of a gathering, see spansOf
	// From and To are the bounds of a range, "" for none.
	From, To                 string
	FromExcluded, ToIncluded bool
	Segments                 int    // of a scan; Way says which
	Each                     bool   // a gathering has other spans in each partition
	If                       string // the condition of a write, see condition

	Bytes int    // of a value, beside what makes it like no other
	Empty bool   // the value is empty
	TTL   int    // in milliseconds; below 0 the item has expired long ago
	Level string // of durability: sync, process, or that of the database

	Way, Limit                         int  // how the answer is asked for; of a sequence
	Pages                              bool // it is read in pages of that limit
	Reverse, Unordered, Filter, Retry  bool
	Rollback, Kill, Temporary, Partial bool
	Snapshot                           int  // read from that one of the open ones, from 1
	Since                              int  // what has changed after that one of the open ones
	Zones                              bool // a filter comes with a condition on zones
	Seed                               uint64
	Keep                               float64

	Options *engine.Options // of a reopening, nil for the same
	Ops     []op            // parts of a commit

	base *snapshot // the one of Since when the operation runs, nil for none
}

// keyOf returns the key of a name: a partition key and, after a slash, a sort key, both as in a Go
// string. A part `b~n` is the longest key of byte b, shorter by n; more bytes may follow it.
func keyOf(name string) engine.Key {
	pk, sk, both := strings.Cut(name, "/")
	k := engine.Key{PK: part(pk)}
	if both {
		k.SK = part(sk)
	}
	return k
}

func keysOf(names string) (keys []engine.Key) {
	for name := range strings.SplitSeq(names, ",") {
		if name != "" {
			keys = append(keys, keyOf(name))
		}
	}
	return keys
}

func part(name string) []byte {
	head, tail, run := strings.Cut(name, "~")
	b := unquote(head)
	if !run {
		return b
	}
	digits := len(tail) - len(strings.TrimLeft(tail, "0123456789"))
	short, _ := strconv.Atoi(tail[:digits])
	return append(bytes.Repeat(b[:1], engine.MaxKeyBytes-short), unquote(tail[digits:])...)
}

func unquote(s string) []byte {
	u, err := strconv.Unquote(`"` + s + `"`)
	if err != nil {
		panic(fmt.Sprintf("%q is not a name of a key", s))
	}
	return []byte(u)
}

// compareKeys orders keys as a database does.
func compareKeys(a, b engine.Key) int {
	return cmp.Or(bytes.Compare(a.PK, b.PK), bytes.Compare(a.SK, b.SK))
}

// sortCondition returns the condition of a text, like between:a:b, and the predicate that it
// stands for.
func sortCondition(text string) (engine.SKCondition, func(sk []byte) bool) {
	if text == "" {
		return engine.SKCondition{}, func([]byte) bool { return true }
	}
	word, rest, _ := strings.Cut(text, ":")
	low, high, _ := strings.Cut(rest, ":")
	a, b := part(low), part(high)
	word, none := strings.CutSuffix(word, "-or-none")
	sortKinds := map[string]struct {
		cond  engine.SKCondition
		holds func(c int, sk []byte) bool
	}{
		"equal":   {engine.SKEqual(a), func(c int, _ []byte) bool { return c == 0 }},
		"less":    {engine.SKLess(a), func(c int, _ []byte) bool { return c < 0 }},
		"most":    {engine.SKLessEqual(a), func(c int, _ []byte) bool { return c <= 0 }},
		"greater": {engine.SKGreater(a), func(c int, _ []byte) bool { return c > 0 }},
		"least":   {engine.SKGreaterEqual(a), func(c int, _ []byte) bool { return c >= 0 }},
		"between": {engine.SKBetween(a, b), func(c int, sk []byte) bool {
			return c >= 0 && bytes.Compare(sk, b) <= 0
		}},
		"range": {engine.SKRange(a, b), func(c int, sk []byte) bool {
			return c >= 0 && bytes.Compare(sk, b) < 0
		}},
		"begins": {engine.SKBeginsWith(a), func(_ int, sk []byte) bool {
			return bytes.HasPrefix(sk, a)
		}},
	}
	k, known := sortKinds[word]
	if !known {
		panic(fmt.Sprintf("%q is not a condition on sort keys", text))
	}
	if none {
		k.cond = k.cond.OrNone()
	}
	return k.cond, func(sk []byte) bool {
		if sk == nil {
			return none
		}
		return k.holds(bytes.Compare(sk, a), sk)
	}
}

// sortKinds are the words of sortCondition.
var sortKinds = []string{
	"equal", "less", "most", "greater", "least", "between", "range", "begins", "less-or-none",
	"most-or-none",
}

// selects returns the predicate of the keys that an operation is about.
func (o *op) selects() func(engine.Key) bool {
	switch {
	case o.Kind == "delete-range", o.Kind == "query", o.Kind == "iterate" && o.SK != "":
		pk := keyOf(o.Key).PK
		_, match := sortCondition(o.SK)
		return func(k engine.Key) bool { return bytes.Equal(k.PK, pk) && match(k.SK) }
	case o.Kind == "delete-scan", o.Kind == "iterate":
		return o.within
	case o.Kind == "gather":
		g := o.gather()
		return func(k engine.Key) bool {
			i := slices.IndexFunc(g.PKs, func(pk []byte) bool { return bytes.Equal(pk, k.PK) })
			if i < 0 || g.StartAfter.PK != nil && o.compareItems(k, g.StartAfter) <= 0 {
				return false
			}
			spans := g.Spans
			if g.Each != nil {
				spans = g.Each[i]
			}
			return len(spans) == 0 || k.SK != nil &&
				slices.ContainsFunc(spans, func(s keycodec.Span) bool { return s.Contains(k.SK) })
		}
	case o.Kind == "scan":
		s := o.scan()
		return func(k engine.Key) bool {
			return o.within(k) && (s.StartAfter.PK == nil || o.compareItems(k, s.StartAfter) > 0) &&
				(s.Segments == 0 || int(keycodec.Stripe(k.PK))%s.Segments == s.Segment)
		}
	}
	keys := keysOf(o.Key)
	return func(k engine.Key) bool {
		return slices.ContainsFunc(keys, func(a engine.Key) bool { return compareKeys(a, k) == 0 })
	}
}

// within reports whether a key is between From and To.
func (o *op) within(k engine.Key) bool {
	if o.From != "" {
		if c := compareKeys(k, keyOf(o.From)); c < 0 || c == 0 && o.FromExcluded {
			return false
		}
	}
	if o.To == "" {
		return true
	}
	c := compareKeys(k, keyOf(o.To))
	return c < 0 || c == 0 && o.ToIncluded
}

// compareItems compares keys in the order of a sequence.
func (o *op) compareItems(a, b engine.Key) int {
	c := compareKeys(a, b)
	switch {
	case o.Kind == "gather" && !o.Unordered: // by sort keys over all partitions
		c = cmp.Or(bytes.Compare(a.SK, b.SK), bytes.Compare(a.PK, b.PK))
	case o.Kind == "scan" && o.Unordered:
		stripes := cmp.Compare(keycodec.Stripe(a.PK), keycodec.Stripe(b.PK))
		if o.Reverse { // in each stripe
			stripes = -stripes
		}
		c = cmp.Or(stripes, c)
	}
	if o.Reverse {
		return -c
	}
	return c
}

// spansOf returns the ranges of a text like a:b,k1:*; * is no end.
func spansOf(text string) (spans []keycodec.Span) {
	for _, s := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		low, high, _ := strings.Cut(s, ":")
		span := keycodec.Span{Start: part(low)}
		if high != "*" {
			span.End = part(high)
		}
		spans = append(spans, span)
	}
	return spans
}

// ttl returns the option of an item that expires, and the moment.
func (o *op) ttl(now int64) (engine.ItemOption, int64) {
	switch {
	case o.TTL < 0:
		return engine.Expiry(1), 1
	case o.Way > 0 && o.TTL > 0:
		return engine.Expiry(now + int64(o.TTL)), now + int64(o.TTL)
	case o.TTL > 0:
		return engine.TTL(time.Duration(o.TTL) * time.Millisecond), now + int64(o.TTL)
	}
	return engine.TTL(0), 0
}

// String returns the line of an operation.
func (o op) String() string {
	text := o.Kind + settings(&o)
	if o.Beside {
		text = "beside " + text
	}
	if o.Options != nil {
		text += " with" + settings(o.Options)
	}
	for i := range o.Ops {
		text += []string{": ", "; "}[min(i, 1)] + o.Ops[i].String()
	}
	return text
}

// settings returns the plain fields of a struct that are not zero, as name=value.
func settings(of any) string {
	var b strings.Builder
	v := reflect.ValueOf(of).Elem()
	for i := range v.NumField() {
		f, name := v.Field(i), strings.ToLower(v.Type().Field(i).Name)
		switch {
		case f.IsZero(), name == "kind", name == "beside":
		case f.Kind() == reflect.Bool:
			b.WriteString(" " + name)
		case f.CanInt():
			fmt.Fprintf(&b, " %s=%d", name, f.Int())
		case f.CanUint():
			fmt.Fprintf(&b, " %s=%d", name, f.Uint())
		case f.CanFloat(), f.Kind() == reflect.String:
			fmt.Fprintf(&b, " %s=%v", name, f)
		}
	}
	return b.String()
}

// set is the inverse of settings.
func set(of any, words []string) error {
	v := reflect.ValueOf(of).Elem()
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		f := v.FieldByNameFunc(func(s string) bool { return strings.ToLower(s) == name })
		if !f.IsValid() || !f.CanSet() {
			return fmt.Errorf("%q is unknown", word)
		}
		switch {
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.Kind() == reflect.String:
			f.SetString(value)
		case !f.CanInt() && !f.CanUint() && !f.CanFloat():
			return fmt.Errorf("%q is no setting", word)
		default:
			if _, err := fmt.Sscan(value, f.Addr().Interface()); err != nil {
				return fmt.Errorf("%q: %w", word, err)
			}
		}
	}
	return nil
}

// parseOp is the inverse of op.String.
func parseOp(text string) (o op, err error) {
	text, parts, _ := strings.Cut(text, ": ")
	text, options, reopen := strings.Cut(text, " with ")
	text, o.Beside = strings.CutPrefix(text, "beside ")
	words := strings.Fields(text)
	if len(words) == 0 || weights[words[0]] == 0 {
		return o, fmt.Errorf("%q is no operation", text)
	}
	o.Kind = words[0]
	if err := set(&o, words[1:]); err != nil {
		return o, err
	}
	if reopen {
		o.Options = new(engine.Options)
		if err := set(o.Options, strings.Fields(options)); err != nil {
			return o, err
		}
	}
	for part := range strings.SplitSeq(parts, "; ") {
		if part != "" {
			p, err := parseOp(part)
			if err != nil {
				return o, err
			}
			o.Ops = append(o.Ops, p)
		}
	}
	return o, nil
}
