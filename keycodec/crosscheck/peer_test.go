// Package crosscheck compares the order of what keycodec writes with that of the key codecs
// of other projects. It is a module of its own, so that they never enter a user's build, and
// has tests only. Their speed is compared by kstone-bench keys.
package crosscheck

import (
	"fmt"

	"github.com/google/orderedcode"
	"github.com/tikv/client-go/v2/util/codec"
)

// peer is a codec of another project.
type peer struct {
	name string
	// encode returns the bytes of a tuple, nil if the codec lacks a type of it.
	encode func(values []any, desc []bool) []byte
}

// peers lists the codecs; fdb_test.go adds one.
var peers = []peer{
	{"google/orderedcode", encodeOrderedcode},
	{"TiKV/TiDB codec", encodeTiKV},
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
