// Package stats has what is known about the values of tables: how it is collected, merged and
// stored. It knows no queries.
package stats

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/kstonedb/kstone/engine/schema"
)

// Source gives what is known about a table. Implementations may be called concurrently.
type Source interface {
	// Table returns the statistics of a table, nil if there are none. They must not
	// change any more.
	Table(t *schema.Table) *Table
}

// HistogramSteps is the number of steps of a histogram; HeavyHitters is how many of
// the most frequent values are kept.
const (
	HistogramSteps = 64
	HeavyHitters   = 64
)

// Table are the statistics of a table. The JSON form is what is stored; fields
// that a program does not know are left out by it.
type Table struct {
	// Epoch grows with every collection: plans that are cached under another epoch are
	// made again.
	Epoch    uint64  `json:"epoch"`
	Rows     float64 `json:"rows"`
	RowBytes float64 `json:"row_bytes"` // average of key and value
	Keys     []Key   `json:"keys,omitempty"`
	// Distinct is the number of different values of each column, by its ordinal; 0, or
	// nothing there, is not known.
	Distinct []float64 `json:"distinct,omitempty"`
	// Monotonic are the columns, by ordinal, in which new rows have hardly ever had smaller
	// values than those before.
	Monotonic []int `json:"monotonic,omitempty"`
	// Sampled is how many rows were looked at; 0 is all.
	Sampled int `json:"sampled,omitempty"`
	// At is when the rows were read; zero is not known.
	At time.Time `json:"at,omitzero"`
}

// Origin says where statistics come from, and when they were collected: "none" of nil.
func (s *Table) Origin() string {
	switch {
	case s == nil:
		return "none"
	case s.Sampled > 0:
		return fmt.Sprintf("sampled%s, %s of about %s rows", s.when(), Grouped(int64(s.Sampled)),
			Grouped(int64(s.Rows)))
	}
	rows := "rows"
	if s.Rows == 1 {
		rows = "row"
	}
	return fmt.Sprintf("analyzed%s, %s %s", s.when(), Grouped(int64(s.Rows)), rows)
}

func (s *Table) when() string {
	if s.At.IsZero() {
		return ""
	}
	return " at " + s.At.UTC().Format("2006-01-02 15:04:05 UTC")
}

// Key are the statistics of an index, or of the key of the rows. Values are seen
// as their encoded bytes, so that ranges of keys can be estimated without decoding.
type Key struct {
	Index   uint32  `json:"index"`   // schema.Index.ID; 0 is the key of the rows
	Entries float64 `json:"entries"` // differs from Rows of partial and multi-value indexes
	// EntryBytes is the average size of key and value of an entry.
	EntryBytes float64 `json:"entry_bytes"`
	// Distinct[i] is the number of different values of the first i+1 columns.
	Distinct []float64 `json:"distinct,omitempty"`
	// Nulls is the fraction of entries whose first column is NULL.
	Nulls float64 `json:"nulls"`
	// Monotonic says that new rows have had ever larger first columns.
	Monotonic bool      `json:"monotonic,omitempty"`
	Histogram Histogram `json:"histogram"`
	// Heavy are the most frequent values of the first column, and Pairs of the first two.
	Heavy []Heavy `json:"heavy,omitempty"`
	Pairs []Heavy `json:"pairs,omitempty"`
}

// Heavy is a frequent value of first columns.
type Heavy struct {
	Key      []byte  `json:"key"` // encoded columns
	Fraction float64 `json:"fraction"`
}

// Histogram divides the entries, in the order of their keys, into steps with equally
// many entries. Bounds are the first keys of the steps, and last the largest key: min
// and max are its ends. Without bounds nothing is known.
type Histogram struct {
	Bounds [][]byte `json:"bounds,omitempty"`
}

// Key returns the statistics of an index (nil: of the rows), or nil.
func (s *Table) Key(x *schema.Index) *Key {
	if s == nil {
		return nil
	}
	id := uint32(0)
	if x != nil {
		id = x.ID
	}
	for i := range s.Keys {
		if s.Keys[i].Index == id {
			return &s.Keys[i]
		}
	}
	return nil
}

// Fraction estimates which part of the entries lies in [lo, hi); a nil hi is open. A
// range inside another one never gets a larger fraction.
func (h Histogram) Fraction(lo, hi []byte) (f float64, known bool) {
	if len(h.Bounds) < 2 {
		return 0, false
	}
	upper := 1.0
	if hi != nil {
		upper = h.position(hi)
	}
	return max(0, upper-h.position(lo)), true
}

// HasEnd reports whether [lo, hi) has the first or the last key.
func (h Histogram) HasEnd(lo, hi []byte) bool {
	n := len(h.Bounds)
	has := func(key []byte) bool {
		return bytes.Compare(lo, key) <= 0 && (hi == nil || bytes.Compare(key, hi) < 0)
	}
	return n >= 2 && (has(h.Bounds[0]) || has(h.Bounds[n-1]))
}

// Outside reports whether [lo, hi) has none of the entries that the histogram was made of.
func (h Histogram) Outside(lo, hi []byte) bool {
	n := len(h.Bounds)
	return n >= 2 && (bytes.Compare(lo, h.Bounds[n-1]) > 0 ||
		hi != nil && bytes.Compare(hi, h.Bounds[0]) <= 0)
}

// position returns the fraction of entries below key.
func (h Histogram) position(key []byte) float64 {
	b := h.Bounds
	i := sort.Search(len(b), func(i int) bool { return bytes.Compare(b[i], key) > 0 })
	switch i {
	case 0:
		return 0
	case len(b):
		return 1
	}
	inside := interpolate(b[i-1], b[i], key)
	return (float64(i-1) + inside) / float64(len(b)-1)
}

// interpolate says how far key is on the way from lo to hi, 0 to 1, looking at the eight
// bytes after what lo and hi have in common.
func interpolate(lo, hi, key []byte) float64 {
	n := 0
	for n < len(lo) && n < len(hi) && lo[n] == hi[n] {
		n++
	}
	l, h, k := eightBytes(lo, n), eightBytes(hi, n), eightBytes(key, n)
	if h <= l || k <= l {
		return 0
	}
	return min(1, float64(k-l)/float64(h-l))
}

func eightBytes(b []byte, at int) uint64 {
	var w [8]byte
	if at < len(b) {
		copy(w[:], b[at:])
	}
	return binary.BigEndian.Uint64(w[:])
}

// HeavyInside adds up the frequent values in [lo, hi).
func (k *Key) HeavyInside(lo, hi []byte) float64 {
	sum := 0.0
	for _, h := range k.Heavy {
		if bytes.Compare(h.Key, lo) >= 0 && (hi == nil || bytes.Compare(h.Key, hi) < 0) {
			sum += h.Fraction
		}
	}
	return sum
}

// Share returns the share of a value of first columns, and whether it is among the frequent
// ones.
func Share(frequent []Heavy, key []byte) (float64, bool) {
	for i := range frequent {
		if string(frequent[i].Key) == string(key) {
			return frequent[i].Fraction, true
		}
	}
	return 0, false
}

// Rare returns the share of one value that is not among the frequent ones, out of so many, if
// some entries are neither.
func Rare(frequent []Heavy, nulls, values float64) float64 {
	rest, least := 1-nulls, 1.0
	for _, h := range frequent {
		rest, least = rest-h.Fraction, min(least, h.Fraction)
	}
	others := values - float64(len(frequent))
	if nulls > 0 {
		others--
	}
	return min(max(0, rest)/max(1, others), 1/max(1, values), least)
}

// Unseen returns the share of values that are outside of the histogram: about one more than the
// values that it was made of. sampled are the rows that were looked at, 0 being all.
func (k *Key) Unseen(sampled int) float64 {
	n := min(max(1, k.Entries), sampleSize)
	if sampled > 0 {
		n = min(n, float64(sampled))
	}
	return 1 / n
}

// Values returns the number of different values of the first n columns of a key.
func (k *Key) Values(n int) (float64, bool) {
	if k == nil || n < 1 || n > len(k.Distinct) {
		return 0, false
	}
	most := 1.0 // estimates of longer prefixes may come out a little smaller
	for _, d := range k.Distinct[:n] {
		most = max(most, d)
	}
	return most, true
}

// valid says whether a stored number can be calculated with.
func valid(f float64) bool { return f >= 0 && !math.IsInf(f, 0) }

func invalid(f float64) bool { return !valid(f) }

var errStats = errors.New("plan: statistics are damaged")

// Validate checks statistics from outside.
func (s *Table) Validate() error {
	if !valid(s.Rows) || !valid(s.RowBytes) || slices.ContainsFunc(s.Distinct, invalid) {
		return errStats
	}
	for _, k := range s.Keys {
		ok := valid(k.Entries) && valid(k.EntryBytes) && k.Nulls >= 0 && k.Nulls <= 1 &&
			len(k.Histogram.Bounds) <= HistogramSteps+1 && len(k.Heavy) <= HeavyHitters &&
			len(k.Pairs) <= HeavyHitters
		for _, d := range k.Distinct {
			ok = ok && valid(d)
		}
		for i := 1; i < len(k.Histogram.Bounds); i++ {
			ok = ok && bytes.Compare(k.Histogram.Bounds[i-1], k.Histogram.Bounds[i]) <= 0
		}
		for _, h := range slices.Concat(k.Heavy, k.Pairs) {
			ok = ok && h.Fraction >= 0 && h.Fraction <= 1
		}
		if !ok {
			return errStats
		}
	}
	return nil
}
