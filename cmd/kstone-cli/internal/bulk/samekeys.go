package bulk

import (
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/record"
	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/figure"
	"github.com/kstonedb/kstone/keycodec"
)

// maxSameKeys bounds the keys that are remembered, about 40 bytes each. Records with keys that
// come later are compared with these only.
const maxSameKeys = 1 << 20

// sameKeys finds records of one input that have the key of an earlier one but other fields. Keys
// are compared by a hash of 64 bits.
type sameKeys struct {
	seed    maphash.Seed
	seen    map[uint64]seenRecord
	scratch []byte

	n       int64
	example string
}

// seenRecord is the first record with a key.
type seenRecord struct {
	line   uint32
	fields uint32 // a hash of them
}

func newSameKeys() *sameKeys {
	return &sameKeys{seed: maphash.MakeSeed(), seen: map[uint64]seenRecord{}}
}

// add notes a record. The names are those of the fields that make up its key.
func (s *sameKeys) add(row *record.Row, key engine.Key, names []string) {
	s.scratch = keycodec.AppendLengthPrefixed(s.scratch[:0], key)
	id := maphash.Bytes(s.seed, s.scratch)
	s.scratch = s.scratch[:0]
	for _, f := range row.Fields {
		s.scratch = append(append(s.scratch, f.Name...), f.JSON...)
	}
	fields := uint32(maphash.Bytes(s.seed, s.scratch))
	first, again := s.seen[id]
	switch {
	case !again && len(s.seen) < maxSameKeys:
		s.seen[id] = seenRecord{uint32(row.Line), fields}
	case again && first.fields != fields:
		if s.n++; s.n == 1 {
			s.example = fmt.Sprintf("line %d has the key of line %d, %s", row.Line, first.line,
				keyFieldsText(row, names))
		}
	}
}

// keyFieldsText returns the fields of a key for people: country "IT", city "Pisa".
func keyFieldsText(row *record.Row, names []string) string {
	var parts []string
	for _, name := range names {
		if text := row.Find(name); len(text) > 0 {
			parts = append(parts, name+" "+record.Short(text))
		}
	}
	return strings.Join(parts, ", ")
}

// report prints how many records were lost to others of the same input, and how to keep them.
func (s *sameKeys) report(a *cli.App, in *Intake) {
	if s.n == 0 {
		return
	}
	what, remedy := "replaced an earlier one", "; --if-absent keeps the first of each"
	if in.Flags.ifAbsent {
		what, remedy = "not written: there is an earlier one", ""
	}
	more := "add a field to --pk or --sk in a new database to keep all"
	if in.Flags.table != "" {
		more = "a table whose primary key has more columns keeps all"
	}
	fmt.Fprintf(a.Err, "%s: %s %s with the same key but other values: %s\n  %s%s\n", in.Name,
		figure.Plural(s.n, "record"), what, s.example, more, remedy)
}
