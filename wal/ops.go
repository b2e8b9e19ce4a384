package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/keycodec"
)

// Format: the payload of a commit is a sequence of operations. Integers are
// big-endian; a key is in its length-prefixed form, SK length 0 meaning no SK.
//
//	delete        1 | key
//	put           2 | key | value length u32 | value
//	put-ttl       3 | expiry u64 | key | value length u32 | value
//	delete-range  4 | start length u32 | start | end length u32 | end   (ordered form)

// AppendPut appends the operation that stores value under (pk, sk); a nil sk means no
// sort key.
//
// Requires, like the other AppendX functions: the key is valid, see
// keycodec.Key.Validate.
func AppendPut(dst, pk, sk, value []byte) []byte {
	dst = append(dst, byte(base.KindPut))
	dst = keycodec.AppendLengthPrefixed(dst, keycodec.Key{PK: pk, SK: sk})
	return appendPrefixed(dst, value)
}

// AppendPutTTL is AppendPut for a value that expires at expiry, in Unix milliseconds.
func AppendPutTTL(dst, pk, sk, value []byte, expiry int64) []byte {
	dst = append(dst, byte(base.KindPutTTL))
	dst = binary.BigEndian.AppendUint64(dst, uint64(expiry))
	dst = keycodec.AppendLengthPrefixed(dst, keycodec.Key{PK: pk, SK: sk})
	return appendPrefixed(dst, value)
}

// SetExpiry changes the expiry of the operation that AppendPutTTL has put at the beginning
// of op.
func SetExpiry(op []byte, expiry int64) { binary.BigEndian.PutUint64(op[1:], uint64(expiry)) }

// AppendDelete appends the operation that deletes (pk, sk).
func AppendDelete(dst, pk, sk []byte) []byte {
	dst = append(dst, byte(base.KindDelete))
	return keycodec.AppendLengthPrefixed(dst, keycodec.Key{PK: pk, SK: sk})
}

// AppendDeleteRange appends the operation that deletes the keys in [start, end), both
// in ordered form.
//
// Requires: start < end.
func AppendDeleteRange(dst, start, end []byte) []byte {
	dst = append(dst, byte(base.KindDeleteRange))
	dst = appendPrefixed(dst, start)
	return appendPrefixed(dst, end)
}

func appendPrefixed(dst, b []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(b)))
	return append(dst, b...)
}

// Op is one operation of a commit.
//
// Ownership: the slices are views into the payload.
type Op struct {
	Kind       base.Kind
	PK, SK     []byte // SK nil: no sort key; both nil for a range
	Value      []byte // puts; never nil for them
	Expiry     int64  // KindPutTTL: Unix milliseconds; otherwise 0
	Start, End []byte // KindDeleteRange: ordered form
}

// OpReader decodes the operations of one payload. The zero value has none.
type OpReader struct {
	rest   []byte
	offset int64
}

// NewOpReader returns a reader of payload.
func NewOpReader(payload []byte) OpReader { return OpReader{rest: payload} }

// Next decodes the next operation into op and reports whether there was one. An error
// is a *corrupt.Error with the offset in the payload; the reader has then ended.
func (r *OpReader) Next(op *Op) (bool, error) {
	if len(r.rest) == 0 {
		return false, nil
	}
	*op = Op{}
	rest, err := op.decode(r.rest)
	if err != nil {
		var c *corrupt.Error
		if errors.As(err, &c) {
			c.Offset += r.offset
		}
		r.rest = nil
		return false, err
	}
	r.offset += int64(len(r.rest) - len(rest))
	r.rest = rest
	return true, nil
}

// decode reads one operation from b and returns the bytes after it. Offsets in errors
// count from the start of b.
func (op *Op) decode(b []byte) (rest []byte, err error) {
	whole := len(b)
	op.Kind, b = base.Kind(b[0]), b[1:]
	switch op.Kind {
	case base.KindPutTTL:
		if len(b) < 8 {
			return nil, badOp(whole-len(b), "8 bytes of expiry", len(b))
		}
		expiry := binary.BigEndian.Uint64(b)
		if expiry > math.MaxInt64 {
			return nil, badOp(1, "an expiry in range", expiry)
		}
		op.Expiry, b = int64(expiry), b[8:]
	case base.KindPut, base.KindDelete:
	case base.KindDeleteRange:
		return op.decodeRange(b)
	default:
		return nil, badOp(0, "a known kind", uint8(op.Kind))
	}
	key, b2, err := keycodec.DecodeLengthPrefixed(b)
	if err != nil {
		var c *corrupt.Error
		if errors.As(err, &c) {
			c.Offset += int64(whole - len(b))
		}
		return nil, err
	}
	op.PK, op.SK, b = key.PK, key.SK, b2
	if op.Kind == base.KindDelete {
		return b, nil
	}
	op.Value, rest, err = prefixed(b, whole-len(b), math.MaxUint32)
	return rest, err
}

func (op *Op) decodeRange(b []byte) (rest []byte, err error) {
	whole := len(b) + 1
	if op.Start, b, err = prefixed(b, 1, keycodec.MaxOrderedBytes+1); err != nil {
		return nil, err
	}
	if op.End, rest, err = prefixed(b, whole-len(b), keycodec.MaxOrderedBytes+1); err != nil {
		return nil, err
	}
	if bytes.Compare(op.Start, op.End) >= 0 {
		return nil, badOp(1, "a range start below its end", "the opposite")
	}
	return rest, nil
}

// prefixed reads a 4-byte length and that many bytes, which lie at offset.
func prefixed(b []byte, offset int, limit uint32) (v, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, badOp(offset, "4 bytes of length", len(b))
	}
	n := binary.BigEndian.Uint32(b)
	b = b[4:]
	if n > limit || uint64(n) > uint64(len(b)) {
		return nil, nil, badOp(offset, "a length within the payload", n)
	}
	return b[:n:n], b[n:], nil
}

func badOp(offset int, want string, got any) error {
	return corrupt.New("", int64(offset), "log operation", want, got)
}
