package manifest

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
)

// Format: payloads are sequences of uvarints (shortest form), zigzag varints for
// times, and byte strings with a uvarint length. docs/format/manifest.md lists the
// fields.

// Lower bounds of encoded sizes, so that a count is checked against the bytes that
// are left before anything is allocated for it.
const (
	minFileBytes   = 13
	minRunBytes    = 2 + minFileBytes
	minStripeBytes = 3
)

func appendState(dst []byte, s *State, values bool) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, s.HashSeed)
	dst = appendBytes(dst, s.Settings)
	dst = appendCounters(dst, s.NextFile, s.NextRun, s.LogStart, s.LogSeq, s.LastSeq)
	n := 0
	for i := range s.Stripes {
		if !s.Stripes[i].empty() {
			n++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(n))
	for i := range s.Stripes {
		st := &s.Stripes[i]
		if st.empty() {
			continue
		}
		dst = append(dst, byte(i))
		dst = binary.AppendUvarint(dst, uint64(st.FlushedSeq))
		dst = appendRuns(dst, st.Runs, values)
	}
	return dst
}

func (st *StripeState) empty() bool { return len(st.Runs) == 0 && st.FlushedSeq == 0 }

func appendEdit(dst []byte, e *Edit, values bool) []byte {
	dst = appendCounters(dst, e.NextFile, e.NextRun, e.LogStart, e.LogSeq, e.LastSeq)
	dst = append(dst, boolByte(e.Settings != nil))
	if e.Settings != nil {
		dst = appendBytes(dst, e.Settings)
	}
	dst = binary.AppendUvarint(dst, uint64(len(e.Stripes)))
	for i := range e.Stripes {
		se := &e.Stripes[i]
		dst = append(dst, byte(se.Stripe))
		dst = binary.AppendUvarint(dst, uint64(se.FlushedSeq))
		dst = binary.AppendUvarint(dst, uint64(len(se.Remove)))
		for _, id := range se.Remove {
			dst = binary.AppendUvarint(dst, id)
		}
		dst = appendRuns(dst, se.Add, values)
	}
	return dst
}

func appendCounters(
	dst []byte, f base.FileNum, run, log uint64, logSeq, seq base.SeqNum,
) []byte {
	for _, v := range [...]uint64{uint64(f), run, log, uint64(logSeq), uint64(seq)} {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

func appendRuns(dst []byte, runs []*Run, values bool) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(runs)))
	for _, r := range runs {
		dst = binary.AppendUvarint(dst, r.ID)
		dst = binary.AppendUvarint(dst, uint64(len(r.Files)))
		for _, f := range r.Files {
			if dst = appendFile(dst, f); values {
				dst = appendValues(dst, f.Values)
			}
		}
	}
	return dst
}

func appendFile(dst []byte, f *base.FileMeta) []byte {
	for _, v := range [...]uint64{
		uint64(f.Num), uint64(f.SizeBytes), uint64(f.MinSeq), uint64(f.MaxSeq),
		f.Entries, f.Tombstones, f.RangeTombstones, f.TTLEntries, f.RawBytes,
	} {
		dst = binary.AppendUvarint(dst, v)
	}
	dst = binary.AppendVarint(dst, f.MinExpiry)
	dst = binary.AppendVarint(dst, f.MaxExpiry)
	dst = appendBytes(dst, f.Smallest)
	return appendBytes(dst, f.Largest)
}

func appendValues(dst []byte, list []base.ValueUse) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, v := range list {
		dst = binary.AppendUvarint(dst, uint64(v.Num))
		dst = binary.AppendUvarint(dst, uint64(v.FileBytes))
		dst = binary.AppendUvarint(dst, v.Bytes)
	}
	return dst
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// decoder reads a payload. The first failure sticks, and what is returned after it has no
// meaning: callers check err once at the end, and before each further element of a list.
type decoder struct {
	file string
	base int64 // file offset of b[0]
	b    []byte
	at   int
	err  error
	// values: files have the value files that they refer to.
	values bool
}

func (d *decoder) fail(want, got any) {
	if d.err == nil {
		d.err = corrupt.New(d.file, d.base+int64(d.at), "manifest record", want, got)
	}
}

func (d *decoder) byte() byte {
	if d.at >= len(d.b) {
		d.fail("a byte", "end of the record")
		return 0
	}
	d.at++
	return d.b[d.at-1]
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func (d *decoder) bool() bool {
	b := d.byte()
	if b > 1 {
		d.at--
		d.fail("0 or 1", b)
	}
	return b == 1
}

func (d *decoder) uint64() uint64 {
	if len(d.b)-d.at < 8 {
		d.fail("8 bytes", "end of the record")
		return 0
	}
	d.at += 8
	return binary.LittleEndian.Uint64(d.b[d.at-8:])
}

func (d *decoder) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(d.b[d.at:])
	switch {
	case n <= 0:
		d.fail("a varint", "none")
	case n > 1 && d.b[d.at+n-1] == 0:
		d.fail("a varint in its shortest form", fmt.Sprintf("%x", d.b[d.at:d.at+n]))
	case v > limit:
		d.fail(fmt.Sprintf("at most %d", limit), v)
	default:
		d.at += n
		return v
	}
	return 0
}

func (d *decoder) varint() int64 {
	u := d.uvarint(math.MaxUint64)
	return int64(u>>1) ^ -int64(u&1)
}

func (d *decoder) seq() base.SeqNum { return base.SeqNum(d.uvarint(uint64(base.MaxSeqNum))) }

// count reads the length of a list whose elements take at least size bytes.
func (d *decoder) count(size int) int {
	return int(d.uvarint(uint64((len(d.b) - d.at) / size)))
}

func (d *decoder) bytes() []byte {
	n := d.count(1)
	if n == 0 {
		return nil
	}
	if n > len(d.b)-d.at {
		d.fail(fmt.Sprintf("%d bytes", n), "end of the record")
		return nil
	}
	d.at += n
	return append([]byte(nil), d.b[d.at-n:d.at]...)
}

// end fails if bytes are left over, and returns the first failure.
func (d *decoder) end() error {
	if d.at != len(d.b) {
		d.fail("end of the record", fmt.Sprintf("%d more bytes", len(d.b)-d.at))
	}
	return d.err
}

// decodeState decodes a snapshot payload. The result is checked.
func decodeState(file string, id identity, r record) (*State, error) {
	d := decoder{file: file, base: r.off + sealBytes, b: r.payload, values: id.values}
	s := &State{DBID: id.dbid, HashSeed: d.uint64(), Settings: d.bytes()}
	s.NextFile = base.FileNum(d.uvarint(math.MaxUint64))
	s.NextRun = d.uvarint(math.MaxUint64)
	s.LogStart = d.uvarint(math.MaxUint64)
	s.LogSeq = d.seq()
	s.LastSeq = d.seq()
	last := -1
	for n := d.count(minStripeBytes); n > 0 && d.err == nil; n-- {
		id := base.StripeID(d.byte())
		if int(id) <= last {
			d.fail(fmt.Sprintf("a stripe above %d", last), id)
		}
		last = int(id)
		st := StripeState{FlushedSeq: d.seq(), Runs: d.runs(id)}
		if st.empty() {
			d.fail("a stripe with content", "an empty one")
		}
		s.Stripes[id] = st
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	if err := s.check(); err != nil {
		return nil, corrupt.New(file, r.off, "manifest snapshot", "a consistent state", err)
	}
	return s, nil
}

// decodeEdit decodes an edit payload; whether it fits the state is Apply's
// business.
func decodeEdit(file string, id identity, r record) (*Edit, error) {
	d := decoder{file: file, base: r.off + sealBytes, b: r.payload, values: id.values}
	e := &Edit{NextFile: base.FileNum(d.uvarint(math.MaxUint64))}
	e.NextRun = d.uvarint(math.MaxUint64)
	e.LogStart = d.uvarint(math.MaxUint64)
	e.LogSeq = d.seq()
	e.LastSeq = d.seq()
	if d.bool() {
		e.Settings = append([]byte{}, d.bytes()...) // not nil: it replaces
	}
	for n := d.count(minStripeBytes); n > 0 && d.err == nil; n-- {
		se := StripeEdit{Stripe: base.StripeID(d.byte()), FlushedSeq: d.seq()}
		for n := d.count(1); n > 0 && d.err == nil; n-- {
			se.Remove = append(se.Remove, d.uvarint(math.MaxUint64))
		}
		se.Add = d.runs(se.Stripe)
		e.Stripes = append(e.Stripes, se)
	}
	if err := d.end(); err != nil {
		return nil, err
	}
	return e, nil
}

func (d *decoder) runs(id base.StripeID) []*Run {
	var runs []*Run
	for n := d.count(minRunBytes); n > 0 && d.err == nil; n-- {
		r := &Run{ID: d.uvarint(math.MaxUint64)}
		for n := d.count(minFileBytes); n > 0 && d.err == nil; n-- {
			r.Files = append(r.Files, d.fileMeta(id))
		}
		runs = append(runs, r)
	}
	return runs
}

func (d *decoder) fileMeta(id base.StripeID) *base.FileMeta {
	f := &base.FileMeta{Stripe: id}
	f.Num = base.FileNum(d.uvarint(math.MaxUint64))
	f.SizeBytes = int64(d.uvarint(math.MaxInt64))
	f.MinSeq, f.MaxSeq = d.seq(), d.seq()
	f.Entries = d.uvarint(math.MaxUint64)
	f.Tombstones = d.uvarint(math.MaxUint64)
	f.RangeTombstones = d.uvarint(math.MaxUint64)
	f.TTLEntries = d.uvarint(math.MaxUint64)
	f.RawBytes = d.uvarint(math.MaxUint64)
	f.MinExpiry, f.MaxExpiry = d.varint(), d.varint()
	f.Smallest, f.Largest = d.bytes(), d.bytes()
	if !d.values {
		return f
	}
	for n := d.count(3); n > 0 && d.err == nil; n-- {
		f.Values = append(f.Values, base.ValueUse{
			Num:       base.FileNum(d.uvarint(math.MaxUint64)),
			FileBytes: int64(d.uvarint(math.MaxInt64)), Bytes: d.uvarint(math.MaxInt64),
		})
	}
	return f
}
