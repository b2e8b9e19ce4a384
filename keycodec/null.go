package keycodec

// Format: a value of a nullable field is preceded by 01. NULL is the single byte 00
// where NULLs sort before all values, 02 where they sort after them.
//
// Why values have a marker, too: a range of values starts at 01, so that a condition
// like x < 5 can never return NULLs.

// On disk: the markers of nullable fields.
const (
	nullFirst = 0x00
	notNull   = 0x01
	nullLast  = 0x02
)

// AppendNull appends a NULL that sorts before all values, or after them if last.
func AppendNull(dst []byte, last bool) []byte { return append(dst, nullMarker(last)) }

// AppendNotNull appends the marker that precedes every value of a nullable field.
func AppendNotNull(dst []byte) []byte { return append(dst, notNull) }

// DecodeNull reads the marker at the start of b and returns what follows it: if null is
// false, the value. last must be what AppendNull was given.
func DecodeNull(b []byte, last bool) (null bool, rest []byte, err error) {
	switch {
	case len(b) == 0:
		return false, nil, truncated("NULL marker", 1, 0)
	case b[0] == notNull:
		return false, b[1:], nil
	case b[0] == nullMarker(last):
		return true, b[1:], nil
	}
	return false, nil, damaged("NULL marker", 0, "01 or "+hexByte(nullMarker(last)), hexByte(b[0]))
}

func nullMarker(last bool) byte {
	if last {
		return nullLast
	}
	return nullFirst
}
