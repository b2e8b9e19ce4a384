// Package crosscheck compares keycodec with the key codecs of other projects: the order of
// what they write, and their speed. It is a module of its own, so that they never enter a
// user's build, and has tests only.
package crosscheck

import (
	"fmt"
	"unsafe"

	"github.com/google/orderedcode"
	"github.com/tikv/client-go/v2/util/codec"

	"github.com/kstonedb/kstone/keycodec"
)

// peer is a codec of another project.
type peer struct {
	name string
	// encode returns the bytes of a tuple, nil if the codec lacks a type of it.
	encode func(values []any, desc []bool) []byte
	// append and decode are for the tuple of the benchmark.
	append func(dst []byte, v *order) []byte
	decode func(key []byte, v *order) error
}

// order is the tuple (string, int64 ms, UUID) that codecs are measured on.
type order struct {
	User string        `kstone:"user"`
	At   int64         `kstone:"at"`
	ID   keycodec.UUID `kstone:"id"`
}

// peers lists the codecs; fdb_test.go adds one.
var peers = []peer{
	{"google/orderedcode", encodeOrderedcode, appendOrderedcode, decodeOrderedcode},
	{"TiKV/TiDB codec", encodeTiKV, appendTiKV, decodeTiKV},
}

// encodeOrderedcode knows strings, integers and floats, ascending and descending.
func encodeOrderedcode(values []any, desc []bool) []byte {
	items := make([]any, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case string, int64, uint64, float64:
			items[i] = v
		case []byte:
			items[i] = string(v)
		default:
			return nil
		}
		if desc[i] {
			items[i] = orderedcode.Decr(items[i])
		}
	}
	key, err := orderedcode.Append(nil, items...)
	if err != nil {
		panic(fmt.Sprint("orderedcode: ", err))
	}
	return key
}

func appendOrderedcode(dst []byte, v *order) []byte {
	dst, err := orderedcode.Append(dst, v.User, v.At, string(v.ID[:]))
	if err != nil {
		panic(err)
	}
	return dst
}

func decodeOrderedcode(key []byte, v *order) error {
	var id string
	rest, err := orderedcode.Parse(string(key), &v.User, &v.At, &id)
	if err == nil && rest != "" {
		err = fmt.Errorf("%d bytes left", len(rest))
	}
	copy(v.ID[:], id)
	return err
}

// encodeTiKV knows texts and integers; integers also descending.
func encodeTiKV(values []any, desc []bool) []byte {
	key := []byte{}
	for i, v := range values {
		switch v := v.(type) {
		case string, []byte:
			text, isBytes := v.([]byte)
			if !isBytes {
				text = []byte(v.(string))
			}
			if desc[i] {
				return nil
			}
			key = append(key, codec.EncodeBytes(nil, text)...)
		case int64:
			if desc[i] {
				key = codec.EncodeIntDesc(key, v)
			} else {
				key = codec.EncodeInt(key, v)
			}
		case uint64:
			if desc[i] {
				key = codec.EncodeUintDesc(key, v)
			} else {
				key = codec.EncodeUint(key, v)
			}
		default:
			return nil
		}
	}
	return key
}

func appendTiKV(dst []byte, v *order) []byte {
	dst = codec.EncodeBytes(dst, []byte(v.User))
	dst = codec.EncodeInt(dst, v.At)
	return codec.EncodeBytes(dst, v.ID[:])
}

// scratch is where the TiKV codec decodes texts to, which it cannot do in place.
var scratch [2][]byte

func decodeTiKV(key []byte, v *order) error {
	rest, user, err := codec.DecodeBytes(key, scratch[0][:0])
	if err != nil {
		return err
	}
	rest, at, err := codec.DecodeInt(rest)
	if err != nil {
		return err
	}
	rest, id, err := codec.DecodeBytes(rest, scratch[1][:0])
	if err == nil && (len(rest) > 0 || len(id) != len(v.ID)) {
		err = fmt.Errorf("%d bytes left", len(rest))
	}
	scratch = [2][]byte{user, id}
	v.User, v.At = unsafe.String(unsafe.SliceData(user), len(user)), at
	copy(v.ID[:], id)
	return err
}
