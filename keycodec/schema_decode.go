package keycodec

import "fmt"

// Decode reads a whole encoded tuple and returns one value for each field, nil for NULL,
// of the Go types listed at Type. It fails with a *corrupt.Error, whose offset is a
// position in key, if the bytes are not what Append writes.
//
// Ownership: the values share no memory with key.
func (s Schema) Decode(key []byte) ([]any, error) {
	values, rest, err := s.DecodePrefix(key, len(s.fields))
	if err != nil {
		return nil, err
	}
	for _, i := range s.kept {
		folded, ok := values[i].(string)
		if !ok {
			continue // NULL
		}
		at := len(key) - len(rest)
		if values[i], rest, err = s.fields[i].Collation.decodeCase(rest, folded); err != nil {
			return nil, shifted(err, at)
		}
	}
	if len(rest) > 0 {
		return nil, damaged("typed key", len(key)-len(rest), "the end",
			fmt.Sprintf("%d more bytes", len(rest)))
	}
	return values, nil
}

// DecodePrefix reads the first n fields of an encoded tuple and returns their values and
// what follows them, a view into key. n may be 0 to Len(). Collated strings come folded:
// the text of those that keep their case is in what follows the last field. Errors are
// those of Decode.
func (s Schema) DecodePrefix(key []byte, n int) (values []any, rest []byte, err error) {
	if n < 0 || n > len(s.fields) {
		return nil, nil, fmt.Errorf("keycodec: %d of %d fields asked for", n, len(s.fields))
	}
	values = make([]any, n)
	var scratch []byte
	rest = key
	for i := range s.fields[:n] {
		at := len(key) - len(rest)
		values[i], rest, scratch, err = s.fields[i].decode(rest, scratch)
		if err != nil {
			return nil, nil, shifted(err, at)
		}
	}
	return values, rest, nil
}

// PrefixLen returns how many bytes of an encoded tuple its first n fields take; kept case
// is after all of them. It finds the ends of the fields without decoding them and does
// not check the values. It allocates nothing. n may be 0 to Len().
func (s Schema) PrefixLen(key []byte, n int) (int, error) {
	if n < 0 || n > len(s.fields) {
		return 0, fmt.Errorf("keycodec: %d of %d fields asked for", n, len(s.fields))
	}
	at := 0
	for i := range s.fields[:n] {
		size, err := s.fields[i].encodedLen(key[at:])
		if err != nil {
			return 0, shifted(err, at)
		}
		at += size
	}
	return at, nil
}

// decode reads the field at the start of b. Descending fields are complemented into
// scratch first, which it returns for the next call.
func (f *Field) decode(b, scratch []byte) (v any, rest, scratch2 []byte, err error) {
	if f.Desc {
		n, err := f.encodedLen(b)
		if err != nil {
			return nil, nil, scratch, err
		}
		scratch = InvertFrom(append(scratch[:0], b[:n]...), 0)
		v, _, err = f.decodeAscending(scratch)
		return v, b[n:], scratch, err
	}
	v, rest, err = f.decodeAscending(b)
	return v, rest, scratch, err
}

func (f *Field) decodeAscending(b []byte) (v any, rest []byte, err error) {
	if !f.Nullable {
		return f.decodeValue(b)
	}
	null, rest, err := DecodeNull(b, f.markerLast())
	if null || err != nil {
		return nil, rest, err
	}
	v, rest, err = f.decodeValue(rest)
	if err != nil {
		return nil, nil, shifted(err, 1)
	}
	return v, rest, nil
}

func (f *Field) decodeValue(b []byte) (v any, rest []byte, err error) {
	switch f.Type {
	case TypeString:
		v, rest, err = f.Collation.decode(b)
	case TypeBytes:
		v, rest, err = DecodeAppendBytes([]byte{}, b)
	case TypeBool:
		v, rest, err = DecodeBool(b)
	case TypeFloat64:
		v, rest, err = DecodeFloat64(b)
	case TypeFloat32:
		var narrow float32
		narrow, rest, err = DecodeFloat32(b)
		v = float64(narrow)
	case TypeTime:
		v, rest, err = DecodeTime(b, f.Unit)
	case TypeUUID:
		v, rest, err = DecodeUUID(b)
	case TypeDecimal:
		v, rest, err = DecodeDecimal(b)
	case TypeFixed:
		v, rest, err = DecodeFixed(b, f.Scale)
	case TypeIP:
		v, rest, err = DecodeIP(b)
	case TypeIPPrefix:
		v, rest, err = DecodeIPPrefix(b)
	default:
		v, rest, err = f.decodeInteger(b)
	}
	if err != nil {
		return nil, nil, err
	}
	return v, rest, nil
}

func (f *Field) decodeInteger(b []byte) (v any, rest []byte, err error) {
	if width := f.Type.signedWidth(); width > 0 {
		u, rest, err := decodeUint(b, width, f.Type.String())
		return int64(u - 1<<(8*width-1)), rest, err
	}
	return decodeUint(b, f.Type.unsignedWidth(), f.Type.String())
}

// encodedLen returns the length of the field at the start of b, marker and terminator
// included.
func (f *Field) encodedLen(b []byte) (int, error) {
	mask, marker := f.mask(), 0
	if f.Nullable {
		switch {
		case len(b) == 0:
			return 0, truncated("NULL marker", 1, 0)
		case b[0]^mask == nullMarker(f.markerLast()):
			return 1, nil
		case b[0]^mask != notNull:
			return 0, damaged("NULL marker", 0, "a marker of the field", hexByte(b[0]))
		}
		marker = 1
	}
	n, err := f.valueLen(b[marker:], mask)
	if err != nil {
		return 0, shifted(err, marker)
	}
	return marker + n, nil
}

func (f *Field) valueLen(b []byte, mask byte) (n int, err error) {
	switch f.Type {
	case TypeString, TypeBytes:
		n, wrong := terminated(b, mask)
		if n == 0 {
			return 0, unterminated("string", b, wrong)
		}
		return n, nil
	case TypeDecimal:
		return decimalLen(b, mask)
	case TypeIP:
		return ipLen(b, mask, "IP address")
	case TypeIPPrefix:
		if n, err = ipLen(b, mask, "IP prefix"); err != nil {
			return 0, err
		}
		n++
	case TypeTime:
		n = f.Unit.width()
	default:
		n = typeTable[f.Type].width
	}
	if len(b) < n {
		return 0, truncated(f.Type.String(), n, len(b))
	}
	return n, nil
}
