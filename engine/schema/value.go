package schema

import (
	"encoding/binary"
	"math"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// put writes a value into the place of the column.
func (w *Writer) put(s *Slot, v expr.Value) error {
	c := s.column
	if v.IsNull() {
		if s.Null < 0 {
			return c.noNull()
		}
		w.Null(s)
		return nil
	}
	if s.Width == 0 {
		return w.putVar(s, v)
	}
	b := w.Fixed(s)
	switch s.Type {
	case keycodec.TypeInt64:
		if i, ok := v.AsInt(); ok {
			binary.LittleEndian.PutUint64(b, uint64(i))
			return nil
		}
	case keycodec.TypeTime:
		if s.Unit > keycodec.Second && s.Unit < keycodec.FullRange && v.Kind() == expr.KindTime {
			if ticks, ok := ticksOf(v, s.Unit); ok {
				binary.LittleEndian.PutUint64(b, uint64(ticks))
				return nil
			}
		}
	case keycodec.TypeFixed:
		if coefficient, ok := v.AsScaled(c.Scale); ok {
			binary.LittleEndian.PutUint64(b, uint64(coefficient))
			return nil
		}
	case keycodec.TypeUUID:
		if u, ok := v.AsUUID(); ok {
			copy(b, u[:])
			return nil
		}
	}
	v, err := c.convert(v)
	if err != nil {
		return err
	}
	putFixed(b, s, v)
	return nil
}

// putFixed writes a value that convert has returned.
func putFixed(b []byte, s *Slot, v expr.Value) {
	switch s.column.elementKind() {
	case expr.KindBool:
		if x, _ := v.AsBool(); x {
			b[0] = 1
		}
	case expr.KindInt:
		i, _ := v.AsInt()
		putLittle(b, uint64(i))
	case expr.KindUint:
		u, _ := v.AsUint()
		putLittle(b, u)
	case expr.KindFloat:
		f, _ := v.AsFloat()
		if s.Width == 4 {
			binary.LittleEndian.PutUint32(b, math.Float32bits(float32(f)))
		} else {
			binary.LittleEndian.PutUint64(b, math.Float64bits(f))
		}
	case expr.KindDecimal:
		coefficient, _ := v.AsScaled(s.column.Scale)
		putLittle(b, uint64(coefficient))
	case expr.KindUUID:
		u, _ := v.AsUUID()
		copy(b, u[:])
	case expr.KindTime:
		if s.Unit == keycodec.FullRange {
			seconds, nanos, _ := v.AsUnixTime()
			binary.LittleEndian.PutUint64(b, uint64(seconds))
			binary.LittleEndian.PutUint32(b[8:], nanos)
			return
		}
		ticks, _ := ticksOf(v, s.Unit)
		putLittle(b, uint64(ticks))
	}
}

func putLittle(b []byte, u uint64) {
	for i := range b {
		b[i] = byte(u >> (8 * i))
	}
}

func (w *Writer) putVar(s *Slot, v expr.Value) error {
	if s.Type == keycodec.TypeString && !s.List {
		text, ok := v.AsString()
		if !ok {
			return s.column.wrongType(v)
		}
		w.Text(s, text)
		return nil
	}
	v, err := s.column.Convert(v)
	if err != nil {
		return err
	}
	switch v.Kind() {
	case expr.KindBytes:
		text, _ := v.AsBytes()
		w.buf = append(w.buf, text...)
	case expr.KindDecimal:
		w.buf, _ = v.AppendDecimal(w.buf)
	case expr.KindIP:
		a, _ := v.AsIP()
		w.buf, err = keycodec.AppendIP(w.buf, a)
	case expr.KindIPPrefix:
		p, _ := v.AsPrefix()
		w.buf, err = keycodec.AppendIPPrefix(w.buf, p)
	case expr.KindList:
		encoded, _ := v.ListBytes()
		w.buf = append(w.buf, encoded...)
	}
	if err == nil {
		w.end(s)
	}
	return err
}

// varSize returns what a value takes in the variable part, or less.
func (s *Slot) varSize(v expr.Value) int {
	switch v.Kind() {
	case expr.KindString, expr.KindBytes, expr.KindList:
		return v.Size()
	}
	return 0
}

// fixedValue reads the bytes of a fixed column.
func (s *Slot) fixedValue(b []byte) (expr.Value, error) {
	switch s.Type {
	case keycodec.TypeInt64:
		return expr.Int(int64(binary.LittleEndian.Uint64(b))), nil
	case keycodec.TypeTime:
		ticks, nanos := int64(binary.LittleEndian.Uint64(b)), uint32(0)
		if s.Unit == keycodec.FullRange {
			nanos = binary.LittleEndian.Uint32(b[8:])
		}
		return checkedTime(ticks, nanos, s.Unit)
	case keycodec.TypeUUID:
		return expr.UUID([16]byte(b)), nil
	case keycodec.TypeFloat64:
		return expr.Float(math.Float64frombits(binary.LittleEndian.Uint64(b))), nil
	case keycodec.TypeFloat32:
		return expr.Float(float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))), nil
	case keycodec.TypeFixed:
		return expr.Scaled(int64(binary.LittleEndian.Uint64(b)), s.column.Scale), nil
	case keycodec.TypeBool:
		if b[0] > 1 {
			return expr.Value{}, damaged("bool", 0, "0 or 1", b[0])
		}
		return expr.Bool(b[0] == 1), nil
	case keycodec.TypeInt8:
		return expr.Int(int64(int8(b[0]))), nil
	case keycodec.TypeInt16:
		return expr.Int(int64(int16(binary.LittleEndian.Uint16(b)))), nil
	case keycodec.TypeInt32:
		return expr.Int(int64(int32(binary.LittleEndian.Uint32(b)))), nil
	case keycodec.TypeUint8:
		return expr.Uint(uint64(b[0])), nil
	case keycodec.TypeUint16:
		return expr.Uint(uint64(binary.LittleEndian.Uint16(b))), nil
	case keycodec.TypeUint32:
		return expr.Uint(uint64(binary.LittleEndian.Uint32(b))), nil
	}
	return expr.Uint(binary.LittleEndian.Uint64(b)), nil
}

// varValue reads the bytes of a variable column, all of b.
func (s *Slot) varValue(b []byte) (expr.Value, error) {
	switch {
	case s.List:
		return s.listValue(b)
	case s.Type == keycodec.TypeString:
		return expr.String(view(b)), nil
	case s.Type == keycodec.TypeBytes:
		return expr.BytesOf(view(b)), nil
	case s.Type == keycodec.TypeDecimal:
		if !expr.ValidDecimal(view(b)) {
			return expr.Value{}, damaged("row", 0, "a decimal", "other bytes")
		}
		return expr.DecimalOf(view(b)), nil
	}
	f := s.column.keyField(KeyColumn{})
	v, rest, err := f.decodeValue(b)
	if err == nil && len(rest) > 0 {
		err = damaged("row", len(b)-len(rest), "the end of a column", "more bytes")
	}
	return v, err
}

// listValue reads a list and checks that its elements are what Convert makes.
func (s *Slot) listValue(b []byte) (expr.Value, error) {
	v, err := expr.DecodeList(view(b))
	if err != nil {
		return expr.Value{}, damaged("row", 0, "a list", err)
	}
	for e := range v.Elements() {
		if same, err := s.column.convert(e); err != nil || same != e {
			return expr.Value{}, damaged("row", 0, "a list of "+s.Type.String(), e)
		}
	}
	return v, nil
}

// CloneRow makes the values of a row independent of the buffers they were decoded from.
func CloneRow(row []expr.Value) {
	for i := range row {
		row[i] = row[i].Clone()
	}
}
