package keycodec

import "bytes"

// MaxKeyBytes limits the PK and, separately, the SK of a key. Why: index blocks,
// zone maps and the manifest hold whole keys, and lengths must be bounded before
// anything is allocated for them.
const MaxKeyBytes = 64 << 10

// MaxOrderedBytes is the length of the longest ordered form: a PK that consists of
// zero bytes only, its terminator, and the longest SK.
const MaxOrderedBytes = 2*MaxKeyBytes + 2 + MaxKeyBytes

// Key names one item. The PK chooses the stripe; all keys of one PK, the partition,
// lie next to each other, ordered by SK.
type Key struct {
	PK []byte // 1 to MaxKeyBytes bytes
	SK []byte // nil: the key has no SK; otherwise 1 to MaxKeyBytes bytes
}

// Validate reports whether the key can be stored: ErrEmptyPK, ErrEmptySK (an SK
// that is empty but not nil) or ErrKeyTooLarge if not.
func (k Key) Validate() error {
	switch {
	case len(k.PK) == 0:
		return ErrEmptyPK
	case len(k.SK) == 0 && k.SK != nil:
		return ErrEmptySK
	case len(k.PK) > MaxKeyBytes || len(k.SK) > MaxKeyBytes:
		return ErrKeyTooLarge
	}
	return nil
}

// Compare returns -1, 0 or +1: by PK bytes, then a key without SK first, then by SK
// bytes. The ordered forms compare the same way.
func (k Key) Compare(other Key) int {
	if c := bytes.Compare(k.PK, other.PK); c != 0 {
		return c
	}
	return bytes.Compare(k.SK, other.SK)
}

// String renders the key for people, "PK" or "PK / SK", in the notation of
// Schema.Format with both parts taken as text.
func (k Key) String() string {
	out := appendText(nil, k.PK)
	if k.SK != nil {
		out = append(out, fieldSeparator...)
		out = appendText(out, k.SK)
	}
	return string(out)
}
