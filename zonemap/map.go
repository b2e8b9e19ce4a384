package zonemap

import (
	"bytes"
	"encoding/binary"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
)

// Format: an encoded Map is
//
//	u8       format version, 1
//	uvarint  length of First, then First
//	uvarint  length of Last, then Last
//	uvarint  MinSeq, uvarint MaxSeq − MinSeq
//	uvarint  Entries, uvarint Tombstones, uvarint TTLEntries
//	uvarint  RawBytes
//	varint   MinExpiry, uvarint MaxExpiry − MinExpiry   (only if TTLEntries > 0)

const mapVersion = 1

// Map is the zone map of a set of entries: what a reader must know to see that a
// block or a file cannot hold what it looks for, see sst.Pruner. A Map without entries covers
// nothing.
type Map struct {
	First, Last    []byte // smallest and largest key, both inclusive
	MinSeq, MaxSeq base.SeqNum

	Entries    uint64 // all entries, tombstones included
	Tombstones uint64 // point tombstones
	TTLEntries uint64 // entries with an expiry
	RawBytes   uint64 // key and value bytes before encoding

	MinExpiry, MaxExpiry int64 // Unix milliseconds over the TTL entries; 0 without any
}

// Merge extends m to cover o, too. The keys of m may afterwards share memory with
// those of o.
func (m *Map) Merge(o *Map) {
	if o.Entries == 0 {
		return
	}
	if m.Entries == 0 {
		*m = *o
		return
	}
	if bytes.Compare(o.First, m.First) < 0 {
		m.First = o.First
	}
	if bytes.Compare(o.Last, m.Last) > 0 {
		m.Last = o.Last
	}
	m.MinSeq, m.MaxSeq = min(m.MinSeq, o.MinSeq), max(m.MaxSeq, o.MaxSeq)
	if o.TTLEntries > 0 {
		if m.TTLEntries == 0 {
			m.MinExpiry, m.MaxExpiry = o.MinExpiry, o.MaxExpiry
		}
		m.MinExpiry, m.MaxExpiry = min(m.MinExpiry, o.MinExpiry), max(m.MaxExpiry, o.MaxExpiry)
	}
	m.Entries += o.Entries
	m.Tombstones += o.Tombstones
	m.TTLEntries += o.TTLEntries
	m.RawBytes += o.RawBytes
}

// AppendBinary appends the encoded form of m to dst.
func (m *Map) AppendBinary(dst []byte) []byte {
	dst = append(dst, mapVersion)
	dst = append(binary.AppendUvarint(dst, uint64(len(m.First))), m.First...)
	dst = append(binary.AppendUvarint(dst, uint64(len(m.Last))), m.Last...)
	dst = binary.AppendUvarint(dst, uint64(m.MinSeq))
	dst = binary.AppendUvarint(dst, uint64(m.MaxSeq-m.MinSeq))
	dst = binary.AppendUvarint(dst, m.Entries)
	dst = binary.AppendUvarint(dst, m.Tombstones)
	dst = binary.AppendUvarint(dst, m.TTLEntries)
	dst = binary.AppendUvarint(dst, m.RawBytes)
	if m.TTLEntries > 0 {
		dst = binary.AppendVarint(dst, m.MinExpiry)
		dst = binary.AppendUvarint(dst, uint64(m.MaxExpiry)-uint64(m.MinExpiry))
	}
	return dst
}

// Decode reads an encoded Map from the front of b and returns what follows it. The
// keys are views into b. Errors are *corrupt.Error with offsets relative to b and
// no file name.
func Decode(b []byte) (m Map, rest []byte, err error) {
	if len(b) == 0 {
		return m, nil, mapError(0, "a version byte", "nothing")
	}
	if b[0] != mapVersion {
		return m, nil, corrupt.NewVersion("", "zone map", mapVersion, b[0])
	}
	d := mapDecoder{b: b, off: 1}
	m.First = d.bytes()
	m.Last = d.bytes()
	m.MinSeq = base.SeqNum(d.uvarint())
	span := d.uvarint()
	m.MaxSeq = m.MinSeq + base.SeqNum(span)
	m.Entries = d.uvarint()
	m.Tombstones = d.uvarint()
	m.TTLEntries = d.uvarint()
	m.RawBytes = d.uvarint()
	if m.TTLEntries > 0 {
		m.MinExpiry = d.varint()
		m.MaxExpiry = int64(uint64(m.MinExpiry) + d.uvarint())
	}
	switch {
	case d.bad:
		return Map{}, nil, mapError(d.off, "a whole field", "a truncated or overlong one")
	case bytes.Compare(m.First, m.Last) > 0:
		return Map{}, nil, mapError(1, "first key <= last key", "the opposite")
	case m.MaxSeq < m.MinSeq || m.MaxSeq > base.MaxSeqNum:
		return Map{}, nil, mapError(d.off, "an ordered range of sequence numbers", m.MaxSeq)
	case m.Tombstones > m.Entries || m.TTLEntries > m.Entries-m.Tombstones:
		return Map{}, nil, mapError(d.off, "counts within the number of entries", m.Entries)
	case m.MaxExpiry < m.MinExpiry:
		return Map{}, nil, mapError(d.off, "an ordered range of expiries", m.MaxExpiry)
	}
	return m, b[d.off:], nil
}

func mapError(off int, want, got any) error {
	return corrupt.New("", int64(off), "zone map", want, got)
}

// mapDecoder reads fields and remembers whether one did not fit.
type mapDecoder struct {
	b   []byte
	off int
	bad bool
}

func (d *mapDecoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b[d.off:])
	d.skip(n)
	return v
}

func (d *mapDecoder) varint() int64 {
	v, n := binary.Varint(d.b[d.off:])
	d.skip(n)
	return v
}

// skip passes a number of n bytes, which is bad if n is not positive. It stays at the first
// bad field.
func (d *mapDecoder) skip(n int) {
	d.bad = d.bad || n <= 0
	if !d.bad {
		d.off += n
	}
}

func (d *mapDecoder) bytes() []byte {
	n := d.uvarint()
	if d.bad || n > uint64(len(d.b)-d.off) {
		d.bad = true
		return nil
	}
	v := d.b[d.off : d.off+int(n) : d.off+int(n)]
	d.off += int(n)
	return v
}
