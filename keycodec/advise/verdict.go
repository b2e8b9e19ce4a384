package advise

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is how a key answers a query.
type Kind uint8

// The kinds, best first.
const (
	ExactLookup Kind = iota // the query gives the whole key
	PrefixScan              // the query gives the first fields
	RangeScan               // the query gives the first fields and bounds of the next
	Inefficient             // more is read than the query returns
)

// String returns "exact lookup", "prefix scan", "range scan" or "inefficient".
func (k Kind) String() string {
	names := [...]string{"exact lookup", "prefix scan", "range scan", "inefficient"}
	return names[min(k, Inefficient)]
}

// Verdict says how a query is answered.
type Verdict struct {
	Query Query
	Kind  Kind
	Key   int    // index of the key that answers it, -1 if there is no key
	Why   string // in one sentence
	Rows  uint64 // how many records are read, estimated; an upper bound for ranges
	Sorts bool   // the key does not deliver the order of the query

	prefix []string // the fields of the key that are compared for equality
}

// Classify reports how a key with these fields answers the query. Rows and Key are 0; Explain
// fills them in.
func Classify(key []string, q Query) Verdict {
	v := Verdict{Query: q}
	used := 0
	for used < len(key) && slices.Contains(q.Equal, key[used]) {
		used++
	}
	v.prefix = key[:used]
	v.Sorts = q.Order != "" && !slices.Contains(q.Equal, q.Order) &&
		(used == len(key) || key[used] != q.Order)
	next, read := q.next(), "["+strings.Join(key[:used], "][")+"]"
	inOrder := next == "" || used < len(key) && key[used] == next
	switch {
	case used == 0 && (next == "" || !inOrder) && len(q.Equal)+len(next) > 0:
		v.Kind = Inefficient
		v.Why = fmt.Sprintf("does not fix the first field %s: reads all records", key[0])
	case used < len(q.Equal):
		v.Kind = Inefficient
		v.Why = skipped(key, used, q, read)
	case used == 0 && len(q.Equal) == 0 && next == "":
		v.Kind, v.Why = Inefficient, "compares no field: reads all records"
	case !inOrder && q.Range != "":
		v.Kind = Inefficient
		v.Why = fmt.Sprintf("skips %s before the range of %s: reads all of %s", fieldAt(key, used),
			next, read)
	case !inOrder:
		v.Kind, v.Why = PrefixScan, "reads "+read
	case q.Range != "" && used == 0:
		v.Kind, v.Why = RangeScan, fmt.Sprintf("reads a range of %s", next)
	case q.Range != "":
		v.Kind, v.Why = RangeScan, fmt.Sprintf("reads a range of %s within %s", next, read)
	case next != "" && used == 0:
		v.Kind, v.Why = RangeScan, fmt.Sprintf("reads all records in the order of %s", next)
	case next != "":
		v.Kind, v.Why = PrefixScan, fmt.Sprintf("reads %s in the order of %s", read, next)
	case used == len(key):
		v.Kind, v.Why = ExactLookup, "gives the whole key"
	default:
		v.Kind, v.Why = PrefixScan, "reads "+read
	}
	if v.Sorts {
		v.Why += ", then sorts by " + q.Order
	}
	return v
}

// skipped explains why a field compared for equality is of no use.
func skipped(key []string, used int, q Query, read string) string {
	var filtered []string
	for _, name := range q.Equal {
		if !slices.Contains(key[:used], name) {
			filtered = append(filtered, name)
		}
	}
	what := "and compares " + strings.Join(filtered, ", ")
	if used == 0 {
		return fmt.Sprintf("skips %s: reads a range of it %s", key[0], what)
	}
	if used < len(key) {
		return fmt.Sprintf("skips %s: reads all of %s %s", key[used], read, what)
	}
	return fmt.Sprintf("the key ends before: reads all of %s %s", read, what)
}

func fieldAt(key []string, i int) string {
	if i < len(key) {
		return key[i]
	}
	return "the end of the key"
}

// Explain reports how the best of the keys answers each query, given a sample of so many
// records.
func Explain(keys [][]string, queries []Query, s *Sample, rows uint64) []Verdict {
	list := make([]Verdict, len(queries))
	for i, q := range queries {
		best := Verdict{Query: q, Kind: Inefficient, Key: -1, Rows: rows, Why: "there is no key"}
		for j, key := range keys {
			if len(key) == 0 {
				continue
			}
			v := Classify(key, q)
			v.Key, v.Rows = j, s.Reads(v.prefix, rows)
			if best.Key < 0 || better(v, best) {
				best = v
			}
		}
		list[i] = best
	}
	return list
}

// better reports whether a is a better answer than b. Of two that read as much, the one
// whose key delivers the order is better. Of equal ones neither is, so that the key named
// first stays.
func better(a, b Verdict) bool {
	if (a.Kind == Inefficient) != (b.Kind == Inefficient) {
		return a.Kind != Inefficient
	}
	if a.Rows != b.Rows {
		return a.Rows < b.Rows
	}
	if a.Sorts != b.Sorts {
		return b.Sorts
	}
	return a.Kind < b.Kind
}
