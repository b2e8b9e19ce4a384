package zonemap

import "github.com/kstonedb/kstone/internal/base"

// MapBuilder computes the Map of entries that arrive in key order. The zero
// MapBuilder is ready. It belongs to one goroutine at a time.
type MapBuilder struct {
	m           Map
	first, last []byte
}

// Add covers e, whose value has valueBytes bytes: e itself may have a reference. Requires: keys
// arrive in ascending order, several versions of one key side by side. The key is copied.
func (b *MapBuilder) Add(e *base.Entry, valueBytes int) {
	if b.m.Entries == 0 {
		b.first = append(b.first[:0], e.Key...)
		b.m.MinSeq, b.m.MaxSeq = e.Seq, e.Seq
	}
	b.last = append(b.last[:0], e.Key...)
	b.m.MinSeq, b.m.MaxSeq = min(b.m.MinSeq, e.Seq), max(b.m.MaxSeq, e.Seq)
	b.m.Entries++
	b.m.RawBytes += uint64(len(e.Key) + valueBytes)
	switch e.Kind {
	case base.KindDelete:
		b.m.Tombstones++
	case base.KindPutTTL:
		if b.m.TTLEntries == 0 {
			b.m.MinExpiry, b.m.MaxExpiry = e.Expiry, e.Expiry
		}
		b.m.TTLEntries++
		b.m.MinExpiry, b.m.MaxExpiry = min(b.m.MinExpiry, e.Expiry), max(b.m.MaxExpiry, e.Expiry)
	}
}

// Map returns the zone map of the entries so far. Its keys belong to the builder
// and change with the next Add or Reset.
func (b *MapBuilder) Map() Map {
	m := b.m
	m.First, m.Last = b.first, b.last
	return m
}

// Reset forgets the entries and keeps the memory.
func (b *MapBuilder) Reset() {
	b.m = Map{}
	b.first, b.last = b.first[:0], b.last[:0]
}
