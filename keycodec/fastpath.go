package keycodec

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
	"unsafe"
)

// fastPath encodes and decodes the keys of structs that consist of the most frequent
// fields only: strings, 64-bit integers and UUIDs, ascending, not nullable and without
// collation. Why: without calls in its loops, and with one check of the capacity for the
// whole key, it takes half the time. The general path does the rest.
type fastPath struct {
	steps []step
	texts []uintptr // offsets of the strings
	fixed int       // bytes of everything but the strings' content
}

// step is one field: what is at an offset of the struct.
type step struct {
	offset uintptr
	kind   slotKind
}

// newFastPath returns the fast path for the slots, nil if it cannot take them.
func newFastPath(slots []slot) *fastPath {
	fast := &fastPath{}
	for _, s := range slots {
		kind, width := s.kind, 8
		switch s.kind {
		case slotKind(TypeString):
			width = 2
			fast.texts = append(fast.texts, s.offset)
		case slotKind(TypeUUID):
			width = len(UUID{})
		case slotCoefficient, slotKind(TypeInt64):
			kind = slotKind(TypeInt64)
		case slotKind(TypeUint64):
		default:
			return nil
		}
		if !s.plain {
			return nil
		}
		fast.fixed += width
		fast.steps = append(fast.steps, step{s.offset, kind})
	}
	return fast
}

// append appends the key of the struct at base. ok is false, and dst as it was, if a
// string is long or has zero bytes in it, which have to be escaped.
//
// Invariant: before and after each field, out has room for all that is still to come but
// the content of strings; so every store lies within it.
func (f *fastPath) append(dst []byte, base unsafe.Pointer) (out []byte, ok bool) {
	start := len(dst)
	need := start + f.fixed
	for _, offset := range f.texts {
		need += len(*(*string)(unsafe.Add(base, offset)))
	}
	if need > cap(dst) {
		dst = slices.Grow(dst, need-start)
	}
	to, at, zeros := unsafe.Pointer(unsafe.SliceData(dst)), start, uint64(0)
	for i := range f.steps {
		p := unsafe.Add(base, f.steps[i].offset)
		switch f.steps[i].kind {
		case slotKind(TypeString):
			n := len(*(*string)(p))
			text := unsafe.Pointer(unsafe.StringData(*(*string)(p)))
			switch {
			case n > wordBytes:
				return dst, false
			case n < 8:
				zeros |= copyShort(unsafe.Add(to, at), text, n)
			default:
				for j := 0; j < n-8; j += 8 {
					zeros |= zeroBytes(copyWord(unsafe.Add(to, at+j), unsafe.Add(text, j)))
				}
				// The last word may overlap the one before.
				zeros |= zeroBytes(copyWord(unsafe.Add(to, at+n-8), unsafe.Add(text, n-8)))
			}
			*(*[2]byte)(unsafe.Add(to, at+n)) = [2]byte{escape, terminator}
			at += n + 2
		case slotKind(TypeInt64):
			binary.BigEndian.PutUint64((*[8]byte)(unsafe.Add(to, at))[:], *(*uint64)(p)^signBit)
			at += 8
		case slotKind(TypeUint64):
			binary.BigEndian.PutUint64((*[8]byte)(unsafe.Add(to, at))[:], *(*uint64)(p))
			at += 8
		default:
			*(*UUID)(unsafe.Add(to, at)) = *(*UUID)(p)
			at += len(UUID{})
		}
	}
	return dst[:at], zeros == 0
}

// copyWord copies 8 bytes and returns them, the first of them lowest.
func copyWord(to, from unsafe.Pointer) uint64 {
	w := binary.LittleEndian.Uint64((*[8]byte)(from)[:])
	binary.LittleEndian.PutUint64((*[8]byte)(to)[:], w)
	return w
}

// copyShort copies n bytes and returns something other than 0 if one of them is zero.
func copyShort(to, from unsafe.Pointer, n int) (zeros uint64) {
	for i := range n {
		c := *(*byte)(unsafe.Add(from, i))
		*(*byte)(unsafe.Add(to, i)) = c
		zeros |= uint64(c) - 1
	}
	return zeros >> 8 // only 0 - 1 has borrowed from there
}

// decode reads a whole key into the struct at base; its strings become views into key. ok
// is false if the key is damaged or a string has zero bytes in it or ends in the last
// bytes: the general path reports which.
func (f *fastPath) decode(key []byte, base unsafe.Pointer) (ok bool) {
	for i := range f.steps {
		p := unsafe.Add(base, f.steps[i].offset)
		switch f.steps[i].kind {
		case slotKind(TypeString):
			n, zero := 0, uint64(0)
			for ; zero == 0; n += 8 {
				if len(key) < n+8 {
					return false
				}
				zero = zeroBytes(binary.LittleEndian.Uint64(key[n:]))
			}
			n += bits.TrailingZeros64(zero)/8 - 8
			if n+1 >= len(key) || key[n+1] != terminator {
				return false
			}
			*(*string)(p) = unsafe.String(unsafe.SliceData(key), n)
			key = key[n+2:]
		case slotKind(TypeUUID):
			if len(key) < len(UUID{}) {
				return false
			}
			*(*UUID)(p) = UUID(key)
			key = key[len(UUID{}):]
		default:
			if len(key) < 8 {
				return false
			}
			v := binary.BigEndian.Uint64(key)
			if f.steps[i].kind == slotKind(TypeInt64) {
				v ^= signBit
			}
			*(*uint64)(p) = v
			key = key[8:]
		}
	}
	return len(key) == 0
}

// cloneTexts replaces the strings of the struct at base by copies.
func (f *fastPath) cloneTexts(base unsafe.Pointer) {
	for _, offset := range f.texts {
		p := (*string)(unsafe.Add(base, offset))
		*p = strings.Clone(*p)
	}
}
