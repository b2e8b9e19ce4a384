package remote

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/internal/corrupt"
)

// Format: a value begins with a byte that says what comes before the bytes of the item:
//
//	00  nothing
//	01  the expiry in Unix milliseconds, 8 bytes, big-endian, not 0
//
// Thus no value is empty, which some stores refuse.
const (
	plainValue    = 0
	expiringValue = 1
	expiryBytes   = 8
)

// AppendValue appends the encoded form of an item's value and expiry.
func AppendValue(dst, value []byte, expiry int64) []byte {
	if expiry == 0 {
		dst = append(dst, plainValue)
	} else {
		dst = binary.BigEndian.AppendUint64(append(dst, expiringValue), uint64(expiry))
	}
	return append(dst, value...)
}

// DecodeValue reads what AppendValue has written. The value is a view into b.
func DecodeValue(b []byte) (value []byte, expiry int64, err error) {
	switch {
	case len(b) > 0 && b[0] == plainValue:
		return b[1:], 0, nil
	case len(b) > expiryBytes && b[0] == expiringValue:
		b = b[1:]
		if expiry = int64(binary.BigEndian.Uint64(b)); expiry > 0 {
			return b[expiryBytes:], expiry, nil
		}
	}
	return nil, 0, &corrupt.Error{
		Offset: -1, What: "value of a remote store", Want: "00, or 01 and an expiry",
		Got: fmt.Sprintf("%d bytes: %x", len(b), b[:min(len(b), expiryBytes+1)]),
	}
}

// item returns the item of a pair; ok is false if there is none or it has expired.
func item(p Pair, now time.Time) (it store.Item, ok bool, err error) {
	if p.Value == nil {
		return it, false, nil
	}
	it.Version = p.Version
	it.Value, it.Expiry, err = DecodeValue(p.Value)
	return it, err == nil && (it.Expiry == 0 || now.UnixMilli() < it.Expiry), err
}
