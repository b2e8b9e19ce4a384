package remote

import (
	"slices"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/keycodec"
)

// Layout says where the items and properties of a database are among the pairs of a store.
//
// Format: a database has the prefix "kstone/" esc(name) 00 00, so that several share one store. An
// item has the key
//
//	prefix 'i' [stripe] ordered
//
// with the ordered form of its key (package keycodec), and, if the layout is striped, the stripe of
// its partition before it, one byte. A property has the key prefix 'p' name. The key prefix 'd' is
// that of TraceKey.
//
// Why a stripe: a store that divides its keys into ranges writes ascending keys to one machine. The
// stripe spreads partitions over 256 ranges. Each partition is in one of them, whole and in order;
// intervals of partitions are in all.
type Layout struct {
	prefix  []byte
	striped bool
}

const (
	itemKind     = 'i'
	propertyKind = 'p'
	traceKind    = 'd'
)

// stripes is the number of values that keycodec.Stripe has.
const stripes = 256

// NewLayout returns the layout of the database called name.
func NewLayout(name string, striped bool) Layout {
	return Layout{slices.Clip(keycodec.AppendOrderedPK([]byte("kstone/"), []byte(name))), striped}
}

// AppendKey appends the encoded form of a key.
func (l Layout) AppendKey(dst []byte, key store.Key) []byte {
	return keycodec.AppendOrdered(l.appendHead(dst, keycodec.Stripe(key.PK)), key)
}

// DecodeKey reads what AppendKey has written. Ownership: see keycodec.DecodeOrdered.
func (l Layout) DecodeKey(b, scratch []byte) (store.Key, []byte, error) {
	return keycodec.DecodeOrdered(b[min(l.headBytes(), len(b)):], scratch)
}

// PropertyKey returns the encoded form of a property's name.
func (l Layout) PropertyKey(name string) []byte {
	return append(append(l.prefix, propertyKind), name...)
}

// TraceKey returns the key that a store may write to say that it has deleted something, if it keeps
// no other trace of that.
func (l Layout) TraceKey() []byte { return append(l.prefix, traceKind) }

// Range returns the range of everything that the database has.
func (l Layout) Range() (start, end []byte) {
	end, _ = keycodec.PrefixEnd(nil, l.prefix)
	return l.prefix, end
}

// Heads returns what keys of items begin with: one for each stripe, or one for all.
func (l Layout) Heads() [][]byte {
	n := 1
	if l.striped {
		n = stripes
	}
	heads := make([][]byte, n)
	for i := range heads {
		heads[i] = l.appendHead(nil, uint8(i))
	}
	return heads
}

func (l Layout) appendHead(dst []byte, stripe uint8) []byte {
	dst = append(append(dst, l.prefix...), itemKind)
	if l.striped {
		dst = append(dst, stripe)
	}
	return dst
}

func (l Layout) headBytes() int {
	n := len(l.prefix) + 1
	if l.striped {
		n++
	}
	return n
}
