//go:build cgo && (rocksdb || lmdb)

package store

import (
	"encoding/binary"
	"sync"
)

// A call into C costs some 40 ns, so the C engines get a batch in one buffer: for
// each record the lengths of key and value, 32 bits in the machine's order, then both.

var packPool = sync.Pool{New: func() any { return new([]byte) }}

func pack(dst []byte, keys []Key, values [][]byte) []byte {
	for i, k := range keys {
		var v []byte
		if values != nil {
			v = values[i]
		}
		dst = binary.NativeEndian.AppendUint32(dst, uint32(len(k.Bytes)))
		dst = binary.NativeEndian.AppendUint32(dst, uint32(len(v)))
		dst = append(append(dst, k.Bytes...), v...)
	}
	return dst
}
