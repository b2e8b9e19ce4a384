package advise

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/axiomhq/hyperloglog"

	"github.com/kstonedb/kstone/keycodec"
)

// Class is the cardinality class of a field.
type Class uint8

// The classes, by the number of distinct values.
const (
	Low    Class = iota // below 1,000
	Medium              // from 1,000 to 1,000,000
	High                // above 1,000,000
)

// ClassOf returns the class of a number of distinct values.
func ClassOf(distinct uint64) Class {
	switch {
	case distinct < 1e3:
		return Low
	case distinct <= 1e6:
		return Medium
	}
	return High
}

// String returns "low", "medium" or "high".
func (c Class) String() string { return [...]string{"low", "medium", "high"}[min(c, High)] }

// Value is the value of one field of a sample record.
type Value struct {
	Field string
	Text  []byte // any form in which equal values have equal bytes; nil for NULL
}

// Sample collects statistics of records in bounded memory: two sketches of 16 KiB for each
// field, and 32 KiB of hashes. The zero value is an empty sample.
type Sample struct {
	rows   uint64
	names  []string
	fields map[string]*column
	// kept has the hashes of the values of maxKept records, drawn at random, by the position
	// of the field in names; 0 where a record lacks the field.
	kept   [][]uint64
	random *rand.Rand
	seed   maphash.Seed
}

// maxKept is the number of records whose combinations of values are counted. Their pairs,
// eight million, show combinations that one record in a million has.
const maxKept = 4096

// column is what is known of one field.
type column struct {
	at        int                 // position in Sample.names
	all, half *hyperloglog.Sketch // of all records, and of about every second one
	present   uint64
	last      []byte // the previous value
	rises     uint64 // values above the one before
	falls     uint64 // values below the one before
	inHalf    uint64 // present values in that half
}

// MaxFields is the largest number of fields of a sample; values of further ones are
// ignored.
const MaxFields = 256

// Add adds a record. Records should come in the order they are written: that shows which
// fields only ever grow.
//
// Ownership: the values are not kept.
func (s *Sample) Add(record []Value) {
	if s.fields == nil {
		s.fields, s.seed = map[string]*column{}, maphash.MakeSeed()
		s.random = rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a sample, not a secret
	}
	// Not every second record: values that alternate would seem to grow in number.
	half := s.rows*0x9e3779b97f4a7c15>>63 == 0
	for _, v := range record {
		if v.Text == nil {
			continue
		}
		c := s.fields[v.Field]
		if c == nil {
			if len(s.names) == MaxFields {
				continue
			}
			c = &column{at: len(s.names), all: hyperloglog.New14(), half: hyperloglog.New14()}
			s.fields[v.Field] = c
			s.names = append(s.names, v.Field)
		}
		c.add(v.Text, half)
	}
	s.rows++
	s.keep(record)
}

// keep puts the record among those kept, with the same probability for all (reservoir
// sampling, Vitter's algorithm R).
func (s *Sample) keep(record []Value) {
	at := len(s.kept)
	if at == maxKept {
		if at = int(min(s.random.Uint64N(s.rows), maxKept)); at == maxKept {
			return
		}
	} else {
		s.kept = append(s.kept, nil)
	}
	hashes := make([]uint64, len(s.names))
	for _, v := range record {
		if c := s.fields[v.Field]; c != nil && v.Text != nil {
			hashes[c.at] = maphash.Bytes(s.seed, v.Text) | 1
		}
	}
	s.kept[at] = hashes
}

// Reads estimates how many of so many records have the same values in all of these fields
// as one of them, itself included: what a query reads that asks for the values of a record.
// It is the share of pairs of kept records that agree; so values that many records have
// count as often as they are asked for, and fields that depend on each other count once.
// A record that lacks a field is equal to none. Of a field that no record has nothing is known.
func (s *Sample) Reads(names []string, rows uint64) uint64 {
	unknown := func(name string) bool { return s.fields[name] == nil }
	if len(names) == 0 || len(s.kept) < 2 || slices.ContainsFunc(names, unknown) {
		return rows
	}
	groups := map[string]uint64{}
	var key []byte
	for _, record := range s.kept {
		key = key[:0]
		for _, name := range names {
			if at := s.fields[name].at; at < len(record) && record[at] != 0 {
				key = binary.BigEndian.AppendUint64(key, record[at])
			}
		}
		if len(key) == 8*len(names) {
			groups[string(key)]++
		}
	}
	pairs, whole := uint64(0), uint64(0)
	for _, size := range groups {
		pairs += size * (size - 1)
		whole += size
	}
	share := float64(pairs) / float64(max(whole, 1)*uint64(len(s.kept)-1))
	return min(rows, 1+uint64(float64(rows-min(1, rows))*share+0.5))
}

func (c *column) add(text []byte, half bool) {
	c.all.Insert(text)
	if half {
		c.half.Insert(text)
		c.inHalf++
	}
	switch {
	case c.present == 0 || bytes.Equal(c.last, text):
	case below(c.last, text):
		c.rises++
	case below(text, c.last):
		c.falls++
	}
	c.present++
	c.last = append(c.last[:0], text...)
}

// below compares numbers by value and everything else by bytes.
func below(a, b []byte) bool {
	x, errX := strconv.ParseFloat(string(a), 64)
	y, errY := strconv.ParseFloat(string(b), 64)
	switch {
	case errX != nil || errY != nil:
		return bytes.Compare(a, b) < 0
	case x != y:
		return x < y
	}
	// Integers from 2^53 on may differ although their floats do not.
	m, _ := keycodec.ParseDecimal(string(a))
	n, _ := keycodec.ParseDecimal(string(b))
	return m.Compare(n) < 0
}

// Rows returns the number of records.
func (s *Sample) Rows() uint64 { return s.rows }

// Field is what a sample says about a field.
type Field struct {
	Name     string
	Distinct uint64 // estimated, among the expected number of records
	Class    Class
	Missing  uint64 // records of the sample that lack the field or have NULL
	Unique   bool   // hardly any value appears twice in the sample
	Rising   bool   // the values hardly ever fall from one record to the next
}

// Fields returns the fields in the order of their first appearance, for a data set of the
// given number of records; 0, or less than the sample has, means the sample is all.
func (s *Sample) Fields(rows uint64) []Field {
	list := make([]Field, len(s.names))
	for i, name := range s.names {
		c := s.fields[name]
		f := Field{Name: name, Missing: s.rows - c.present}
		inSample := min(c.all.Estimate(), c.present)
		f.Distinct = c.extrapolate(inSample, max(rows, s.rows), s.rows)
		f.Class = ClassOf(f.Distinct)
		f.Unique = f.Missing == 0 && float64(inSample) >= uniqueShare*float64(s.rows)
		f.Rising = c.rises >= minRising && 2*c.rises > c.present &&
			float64(c.rises) >= risingShare*float64(c.rises+c.falls) &&
			risesToNew*float64(c.rises) <= float64(inSample)
		list[i] = f
	}
	return list
}

const (
	// uniqueShare of the records must have values of their own. HyperLogLog is off by 0.8 %
	// on average here, so a few percent are left for that.
	uniqueShare = 0.97
	// risingShare of the values that differ from the one before must be above it. They must
	// be more than half of all, so that a sorted file is not taken for a growing one.
	risingShare = 0.95
	minRising   = 20
	// risesToNew of the rises must be to new values: names that are dealt out in turns rise
	// nearly always, too, but come back.
	risesToNew = 0.9
	// flat is the growth exponent below which a field is taken to have shown all its
	// values.
	flat = 0.1
)

// extrapolate carries the number of distinct values of the sample over to more records. The
// number in half of the sample and the number in all of it give an exponent: 0 if the
// second half showed nothing new, 1 if it doubled the number (Heaps' law).
func (c *column) extrapolate(inSample, rows, sampled uint64) uint64 {
	half := min(c.half.Estimate(), c.inHalf)
	if rows <= sampled || half == 0 || inSample <= half {
		return inSample
	}
	exponent := min(1, math.Log2(float64(inSample)/float64(half)))
	if exponent < flat {
		return inSample
	}
	grown := float64(inSample) * math.Pow(float64(rows)/float64(sampled), exponent)
	return uint64(min(grown, float64(rows)))
}

// find returns the field with that name.
func find(fields []Field, name string) (Field, bool) {
	i := slices.IndexFunc(fields, func(f Field) bool { return f.Name == name })
	if i < 0 {
		return Field{}, false
	}
	return fields[i], true
}
