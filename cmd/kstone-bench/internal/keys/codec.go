// Package keys measures key codecs beside each other in one process, and the operations
// on composite keys for which their specification gives figures.
package keys

import (
	"fmt"
	"unsafe"

	"github.com/google/orderedcode"
	tikv "github.com/tikv/client-go/v2/util/codec"

	"github.com/kstonedb/kstone/keycodec"
)

// order is the tuple that codecs are measured on: string, int64 of milliseconds, UUID.
type order struct {
	User string        `kstone:"user"`
	At   int64         `kstone:"at"`
	ID   keycodec.UUID `kstone:"id"`
}

var sample = order{
	User: "USR_12345",
	At:   1737100800000,
	ID:   keycodec.UUID{0x01, 0x94, 0x73, 0x3f, 0x7a, 0, 0x7b, 0x34, 0x8f, 0x2a, 1, 2, 3, 4, 5, 6},
}

// codec encodes and decodes the tuple in one way.
type codec struct {
	name   string
	module string // whose version is shown; empty for our own
	append func(dst []byte, v *order) ([]byte, error)
	// decode may set strings of v that are views into key, or into its own scratch memory.
	decode func(key []byte, v *order) error
}

// fdbName is the codec that is there with the build tag fdb only: its module is bound to a
// C library, and keycodec/crosscheck/fdb.sh takes the one file out of it that is not.
const fdbName = "FoundationDB tuple"

// others lists the codecs of other projects; fdb.go adds one.
var others = []codec{
	{"google/orderedcode", "github.com/google/orderedcode", appendOrderedcode,
		decodeOrderedcode},
	newTiKV(),
}

// emptyCall does nothing: what it takes is the price of measuring, part of all figures.
var emptyCall = codec{
	name:   "(an empty call)",
	append: func(dst []byte, _ *order) ([]byte, error) { return dst, nil },
	decode: func([]byte, *order) error { return nil },
}

// codecs returns all of them, beginning with the one that the others are compared with.
func codecs() ([]codec, error) {
	ours, err := keycodec.NewCodec[order]()
	if err != nil {
		return nil, err
	}
	return append([]codec{
		{"kstone, call by call", "", appendCalls, decodeCalls},
		{"kstone, struct", "", ours.Append, ours.DecodeView},
	}, others...), nil
}

func appendCalls(dst []byte, v *order) ([]byte, error) {
	dst = keycodec.AppendString(dst, v.User)
	dst = keycodec.AppendInt64(dst, v.At)
	return keycodec.AppendUUID(dst, v.ID), nil
}

func decodeCalls(key []byte, v *order) error {
	user, rest, err := keycodec.DecodeBytes(key)
	if err != nil {
		return err
	}
	v.User = unsafe.String(unsafe.SliceData(user), len(user))
	if v.At, rest, err = keycodec.DecodeInt64(rest); err != nil {
		return err
	}
	if v.ID, rest, err = keycodec.DecodeUUID(rest); err != nil {
		return err
	}
	return atEnd(rest)
}

func atEnd[T string | []byte](rest T) error {
	if len(rest) > 0 {
		return fmt.Errorf("%d bytes left after the tuple", len(rest))
	}
	return nil
}

// appendOrderedcode writes the UUID as a string: the codec has no such type.
func appendOrderedcode(dst []byte, v *order) ([]byte, error) {
	return orderedcode.Append(dst, v.User, v.At, string(v.ID[:]))
}

func decodeOrderedcode(key []byte, v *order) error {
	var id string
	rest, err := orderedcode.Parse(string(key), &v.User, &v.At, &id)
	if err != nil {
		return err
	}
	copy(v.ID[:], id)
	return atEnd(rest)
}

// newTiKV returns the codec that TiKV's client shares with TiDB. It writes the UUID as
// bytes, and cannot decode texts in place: they go to memory that is used again.
func newTiKV() codec {
	var scratch [2][]byte
	return codec{
		name: "TiKV/TiDB codec", module: "github.com/tikv/client-go/v2",
		append: func(dst []byte, v *order) ([]byte, error) {
			user := unsafe.Slice(unsafe.StringData(v.User), len(v.User))
			dst = tikv.EncodeInt(tikv.EncodeBytes(dst, user), v.At)
			return tikv.EncodeBytes(dst, v.ID[:]), nil
		},
		decode: func(key []byte, v *order) error {
			rest, user, err := tikv.DecodeBytes(key, scratch[0][:0])
			if err != nil {
				return err
			}
			if rest, v.At, err = tikv.DecodeInt(rest); err != nil {
				return err
			}
			rest, id, err := tikv.DecodeBytes(rest, scratch[1][:0])
			if err != nil {
				return err
			}
			scratch = [2][]byte{user, id}
			v.User = unsafe.String(unsafe.SliceData(user), len(user))
			copy(v.ID[:], id)
			return atEnd(rest)
		},
	}
}
