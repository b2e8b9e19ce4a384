package schema

import (
	"bytes"
	"encoding/binary"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/zonemap/zone"
)

// describe reports a column of rows by their bodies.
func (f *zoneField) describe(b *zone.ColumnsBuilder, rows []zoneBody, l *Layout, s *Slot) bool {
	nulls := 0
	if s.Null >= 0 {
		for i := range rows {
			nulls += int(rows[i].body[s.Null>>3] >> (s.Null & 7) & 1)
		}
		if nulls > 0 {
			b.Nulls(f.id, nulls)
		}
		if nulls == len(rows) {
			return true
		}
	}
	switch n := len(rows) - nulls; {
	case s.Width == 0:
		return f.describeVariable(b, rows, l, s, n)
	case s.Width > 8:
		f.describeWide(b, rows, s, n)
	default:
		f.describeFixed(b, rows, s, n)
	}
	return true
}

// null reports whether a column of a row is NULL.
func (r *zoneBody) null(s *Slot) bool {
	return s.Null >= 0 && r.body[s.Null>>3]>>(s.Null&7)&1 != 0
}

// describeFixed reports a column of up to 8 bytes, n of them no NULLs.
func (f *zoneField) describeFixed(b *zone.ColumnsBuilder, rows []zoneBody, s *Slot, n int) {
	var sign, infinity uint64
	switch f.Type {
	case keycodec.TypeFloat64:
		infinity = 0x7ff << 52
	case keycodec.TypeFloat32:
		infinity = 0xff << 23
	case keycodec.TypeBool, keycodec.TypeUint8, keycodec.TypeUint16, keycodec.TypeUint32,
		keycodec.TypeUint64:
	default:
		sign = 1 << (8*s.Width - 1)
	}
	low, high := ^uint64(0), uint64(0)
	for i := range rows {
		if rows[i].null(s) {
			continue
		}
		var u uint64
		switch v := rows[i].body[s.Offset:]; s.Width {
		case 8:
			u = binary.LittleEndian.Uint64(v)
		case 4:
			u = uint64(binary.LittleEndian.Uint32(v))
		case 2:
			u = uint64(binary.LittleEndian.Uint16(v))
		default:
			u = uint64(v[0])
		}
		if u ^= sign; infinity != 0 {
			u = orderedFloat(u, infinity)
		}
		low, high = min(low, u), max(high, u)
	}
	b.Scratch = appendBig(appendBig(b.Scratch[:0], low, s.Width), high, s.Width)
	b.Values(f.id, n, b.Scratch[:s.Width], b.Scratch[s.Width:])
}

// orderedFloat returns the bits of a float in the order of keys: NaN, negative numbers, others.
func orderedFloat(u, infinity uint64) uint64 {
	sign := infinity &^ (infinity >> 1) << 1
	switch {
	case u&^sign > infinity:
		return 0
	case u&sign != 0:
		return ^u & (sign<<1 - 1)
	}
	return u | sign
}

// describeWide reports a column of 12 or 16 bytes, n of them no NULLs.
func (f *zoneField) describeWide(b *zone.ColumnsBuilder, rows []zoneBody, s *Slot, n int) {
	var low, high, lowRest, highRest uint64
	for i, first := 0, true; i < len(rows); i++ {
		if rows[i].null(s) {
			continue
		}
		v := rows[i].body[s.Offset : s.Offset+s.Width]
		u, rest := binary.BigEndian.Uint64(v), uint64(0)
		if f.Type == keycodec.TypeUUID {
			rest = binary.BigEndian.Uint64(v[8:])
		} else { // seconds and nanoseconds
			u = binary.LittleEndian.Uint64(v) ^ 1<<63
			rest = uint64(binary.LittleEndian.Uint32(v[8:])) << 32
		}
		if first || u < low || u == low && rest < lowRest {
			low, lowRest = u, rest
		}
		if first || u > high || u == high && rest > highRest {
			high, highRest = u, rest
		}
		first = false
	}
	out := binary.BigEndian.AppendUint64(b.Scratch[:0], low)
	out = binary.BigEndian.AppendUint64(out, lowRest)[:s.Width]
	out = binary.BigEndian.AppendUint64(out, high)
	b.Scratch = binary.BigEndian.AppendUint64(out, highRest)[:2*s.Width]
	b.Values(f.id, n, b.Scratch[:s.Width], b.Scratch[s.Width:])
}

// describeVariable reports a column of variable length, n of them no NULLs. It is false if the rows
// cannot be decoded.
func (f *zoneField) describeVariable(b *zone.ColumnsBuilder, rows []zoneBody, l *Layout,
	s *Slot, n int,
) bool {
	var low, high []byte
	var lowHead, highHead uint64
	for i := range rows {
		r := &rows[i]
		if r.null(s) {
			continue
		}
		v := View{Layout: l, body: r.body, width: r.width, data: l.base + (l.Vars-1)*r.width}
		own, err := v.Bytes(s)
		if err != nil {
			return false
		}
		if len(own) > zoneLongText && !f.long {
			return true
		}
		head := base.KeyHead(own)
		switch {
		case low == nil:
			low, high, lowHead, highHead = own, own, head, head
		case lowHead < head && head < highHead:
		case bytes.Compare(own, low) < 0:
			low, lowHead = own, head
		case bytes.Compare(own, high) > 0:
			high, highHead = own, head
		}
	}
	if f.isText() {
		out := keycodec.AppendString(b.Scratch[:0], view(low[:min(len(low), zoneTextBytes)]))
		n := len(out)
		out = keycodec.AppendString(out, view(high[:min(len(high), zoneTextBytes)]))
		b.Scratch, low, high = out, out[:n], out[n:]
	}
	b.Values(f.id, n, low, high)
	return true
}
