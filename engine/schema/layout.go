package schema

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// Format: the columns of a row's value, and the included columns of an index entry, are
//
//	NULL bitmap    a bit for each nullable column, the first one lowest
//	fixed part     the columns of fixed width, little-endian, zero bytes for NULL
//	ends           of the columns of variable length all but the last: where they end
//	variable part  their bytes one after the other
//
// Ends are counted from the start of the variable part and have 1, 2 or 4 bytes, as few as
// they need. The last column of variable length ends where the value ends.

// Slot is the place of one column in a Layout.
type Slot struct {
	Ordinal int
	Type    keycodec.Type // of the elements if List
	Unit    keycodec.Unit
	List    bool
	Offset  int // of a fixed column: from the start of the body
	Width   int // of a fixed column: 1, 2, 4, 8, 12 or 16 bytes; 0 of a variable one
	Var     int // of a variable column: its position among them
	Null    int // its bit in the bitmap, -1 if it is not nullable

	column *Column
}

// Layout says where columns are in the value of a row or index entry.
type Layout struct {
	Version uint32 // of the rows that have it
	Slots   []Slot // fixed columns first; otherwise by the ids of the columns
	Vars    int    // number of variable columns

	byOrdinal []int16 // position in Slots, -1: not there
	base      int     // bytes of bitmap and fixed part
}

func newLayout(t *Table, version uint32, ordinals []int) *Layout {
	l := &Layout{Version: version, byOrdinal: make([]int16, len(t.Columns))}
	ordinals = slices.Clone(ordinals)
	slices.SortFunc(ordinals, func(a, b int) int {
		return int(t.Columns[a].ID) - int(t.Columns[b].ID)
	})
	nulls := 0
	for _, variable := range []bool{false, true} {
		for _, i := range ordinals {
			c := &t.Columns[i]
			width := typeWidth(c.Type, c.Unit)
			if c.List {
				width = 0
			}
			if (width == 0) != variable {
				continue
			}
			s := Slot{Ordinal: i, Type: c.Type, Unit: c.Unit, List: c.List, Width: width,
				Null: -1, column: c}
			if c.Nullable {
				s.Null, nulls = nulls, nulls+1
			}
			if variable {
				s.Var, l.Vars = l.Vars, l.Vars+1
			}
			l.Slots = append(l.Slots, s)
		}
	}
	l.base = (nulls + 7) / 8
	for i := range l.byOrdinal {
		l.byOrdinal[i] = -1
	}
	for i := range l.Slots {
		s := &l.Slots[i]
		l.byOrdinal[s.Ordinal] = int16(i)
		if s.Width > 0 {
			s.Offset, l.base = l.base, l.base+s.Width
		}
	}
	return l
}

// Slot returns the place of a column, nil if it is not in the layout.
func (l *Layout) Slot(ordinal int) *Slot {
	if uint(ordinal) >= uint(len(l.byOrdinal)) || l.byOrdinal[ordinal] < 0 {
		return nil
	}
	return &l.Slots[l.byOrdinal[ordinal]]
}

// Writer writes a body, column by column: fixed ones in any order, variable ones in the
// order of the slots. It is a value for one goroutine; make one with Layout.Writer.
type Writer struct {
	buf   []byte
	start int // of the body
	ends  int // of the ends
	data  int // of the variable part
	width int // of an end
	vars  int
}

// On disk: the format byte is the width of an end: version 1 of the format.
const (
	formatNarrow = 1
	formatMiddle = 2
	formatWide   = 4
)

// writer starts a body after the content of dst, whose byte at format is the format byte.
// size is what the variable columns take, if it is known, or less.
func (l *Layout) writer(dst []byte, format, size int) Writer {
	w := Writer{vars: l.Vars, width: endWidth(size)}
	dst[format] = byte(w.width)
	n := l.base + max(l.Vars-1, 0)*w.width
	w.start = len(dst)
	dst = slices.Grow(dst, n+size)[:w.start+n]
	clear(dst[w.start:])
	w.ends, w.data, w.buf = w.start+l.base, w.start+n, dst
	return w
}

// appendBody writes the columns of a row with a writer of these arguments, and again with
// wider ends if size was too little.
func (l *Layout) appendBody(dst []byte, format int, row []expr.Value, size int) ([]byte, error) {
	for {
		w := l.writer(dst, format, size)
		for i := range l.Slots {
			s := &l.Slots[i]
			if err := w.put(s, row[s.Ordinal]); err != nil {
				return dst, err
			}
		}
		out, n, ok := w.Finish()
		if ok {
			return out, nil
		}
		size = n
	}
}

func endWidth(size int) int {
	switch {
	case size <= math.MaxUint8:
		return formatNarrow
	case size <= math.MaxUint16:
		return formatMiddle
	}
	return formatWide
}

// Null writes NULL. Requires: the column is nullable.
func (w *Writer) Null(s *Slot) {
	w.buf[w.start+s.Null>>3] |= 1 << (s.Null & 7)
	if s.Width == 0 {
		w.end(s)
	}
}

// Fixed returns the bytes of a fixed column, which are zero, to be written.
func (w *Writer) Fixed(s *Slot) []byte {
	at := w.start + s.Offset
	return w.buf[at : at+s.Width : at+s.Width]
}

// Text writes a variable column, of text or bytes.
func (w *Writer) Text(s *Slot, text string) {
	w.buf = append(w.buf, text...)
	w.end(s)
}

// end records where a variable column ends, once it is in the buffer.
func (w *Writer) end(s *Slot) {
	if s.Var == w.vars-1 {
		return
	}
	end, at := len(w.buf)-w.data, w.ends+s.Var*w.width
	switch w.width {
	case formatNarrow:
		w.buf[at] = byte(end)
	case formatMiddle:
		binary.LittleEndian.PutUint16(w.buf[at:], uint16(end))
	default:
		binary.LittleEndian.PutUint32(w.buf[at:], uint32(end))
	}
}

// Finish returns the bytes. If the ends turn out to need more bytes than was assumed, it
// fails: ok is false, and size is what the variable columns take; start again with that.
func (w *Writer) Finish() (out []byte, size int, ok bool) {
	size = len(w.buf) - w.data
	return w.buf, size, w.vars == 0 || endWidth(size) == w.width
}

// View reads a body. It is a value; the bytes must not change meanwhile.
type View struct {
	Layout *Layout
	body   []byte
	width  int
	data   int // start of the variable part in body
}

// view checks the frame of a body. format is the format byte.
func (l *Layout) view(format byte, body []byte) (View, error) {
	if format != formatNarrow && format != formatMiddle && format != formatWide {
		return View{}, damaged("row", 0, "a format of 1, 2 or 4", format)
	}
	v := View{Layout: l, body: body, width: int(format)}
	v.data = l.base + max(l.Vars-1, 0)*v.width
	switch {
	case len(body) < v.data:
		return View{}, damaged("row", len(body), "its fixed part", "the end")
	case l.Vars == 0 && len(body) > v.data:
		return View{}, damaged("row", v.data, "the end", "more bytes")
	case endWidth(len(body)-v.data) != v.width:
		return View{}, damaged("row", 0, "ends of as few bytes as they need", format)
	}
	return v, nil
}

// Null reports whether a column is NULL.
func (v *View) Null(s *Slot) bool {
	return s.Null >= 0 && v.body[s.Null>>3]>>(s.Null&7)&1 != 0
}

// Fixed returns the bytes of a fixed column.
func (v *View) Fixed(s *Slot) []byte { return v.body[s.Offset : s.Offset+s.Width] }

// Bytes returns the bytes of a variable column, a view.
func (v *View) Bytes(s *Slot) ([]byte, error) {
	start, end := 0, len(v.body)-v.data
	if s.Var > 0 {
		start = v.end(s.Var - 1)
	}
	if s.Var < v.Layout.Vars-1 {
		end = v.end(s.Var)
	}
	// An end of 4 bytes may be negative as an int of 32 bits.
	if uint(start) > uint(end) || uint(end) > uint(len(v.body)-v.data) {
		return nil, damaged("row", v.data, "ends in ascending order", "others")
	}
	return v.body[v.data+start : v.data+end : v.data+end], nil
}

func (v *View) end(i int) int {
	at := v.body[v.Layout.base+i*v.width:]
	switch v.width {
	case formatNarrow:
		return int(at[0])
	case formatMiddle:
		return int(binary.LittleEndian.Uint16(at))
	}
	return int(binary.LittleEndian.Uint32(at))
}

// Value returns the value of a column.
//
// Ownership: it may share the bytes of the view.
func (v *View) Value(s *Slot) (expr.Value, error) {
	if v.Null(s) {
		return expr.Value{}, nil
	}
	if s.Width > 0 {
		return s.fixedValue(v.body[s.Offset : s.Offset+s.Width])
	}
	b, err := v.Bytes(s)
	if err != nil {
		return expr.Value{}, err
	}
	return s.varValue(b)
}
