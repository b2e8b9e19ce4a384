package engine

import (
	"errors"
	"reflect"
	"slices"
	"testing"
)

// fillUp makes an empty batch one whose conditions hold so many bytes, without the memory.
func fillUp(b *Batch, n int) {
	field := func(of reflect.Value, name string) reflect.Value {
		f := of.Elem().FieldByName(name)
		return reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem()
	}
	conds := field(reflect.ValueOf(&b.core), "conds")
	conds.Set(reflect.New(conds.Type().Elem()))
	field(conds, "bytes").SetInt(int64(n))
}

// An operation counts with its key, its value, and what its condition holds.
func TestRoomInABatch(t *testing.T) {
	key, value := Key{PK: []byte("part"), SK: []byte("sort")}, []byte("value")
	held := IfValue([]byte("old value"))
	for name, c := range map[string]struct {
		bytes int
		add   func(*Batch) error
	}{
		"Put": {4 + 4 + 5, func(b *Batch) error { return b.Put(key, value) }},
		"Put that expires": {4 + 4 + 5, func(b *Batch) error {
			return b.Put(key, value, Expiry(1))
		}},
		"Delete": {4 + 4, func(b *Batch) error { return b.Delete(key) }},
		"DeleteRange": {6 + 7, func(b *Batch) error {
			return b.DeleteRange(key.PK, SKLess([]byte("")))
		}},
		"PutIf": {9 + 8 + 8 + 5, func(b *Batch) error { return b.PutIf(key, value, held) }},
		"PutIf that expires": {9 + 8 + 8 + 5, func(b *Batch) error {
			return b.PutIf(key, value, held, Expiry(1))
		}},
		"DeleteIf": {9 + 8 + 8, func(b *Batch) error { return b.DeleteIf(key, held) }},
		"Require":  {9 + 8 + 8, func(b *Batch) error { return b.Require(key, held) }},
	} {
		for _, over := range []int{0, 1} {
			b := NewBatch()
			fillUp(b, MaxBatchBytes-64-c.bytes+over)
			err := c.add(b)
			if over == 0 && err != nil || over == 1 && !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s, %d bytes too many: %v", name, over, err)
			}
			if over == 1 && (b.Len() > 0 || b.Bytes() > 0 || len(slices.Collect(b.All())) > 0) {
				t.Errorf("%s: a batch that has refused an operation holds it", name)
			}
		}
	}
}

// A DeleteScan counts with its keys, which the record of the batch does not have yet.
//
// Promise (reads and writes): Operations of a batch are refused beyond MaxBatchBytes of keys, also
// those that its record does not have.
func TestRoomOfDeleteScans(t *testing.T) {
	from, to := Key{PK: []byte("from")}, Key{PK: []byte("to")}
	one := NewBatch()
	ok(t, one.DeleteScan(from, to))
	for _, over := range []int{0, 1} {
		b := NewBatch()
		n := MaxBatchBytes - 64 - one.core.KeyBytes() + over
		keys := reflect.ValueOf(&b.core).Elem().FieldByName("keys")
		*(*[]byte)(keys.Addr().UnsafePointer()) = make([]byte, n, MaxBatchBytes) // not touched
		err := b.DeleteScan(from, to)
		if over == 0 && err != nil || over == 1 && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%d bytes too many: %v", over, err)
		}
	}
}

// What conditions hold: their values, and the keys of those without a write.
func TestRoomOfConditions(t *testing.T) {
	key := Key{PK: []byte("part"), SK: []byte("sort")}
	b := NewBatch()
	for i, want := range []int{3, 3 + 2 + 8, 3 + 2 + 8 + MaxValueBytes + 1} {
		err := []error{nil, nil, nil}[i]
		switch i {
		case 0:
			err = b.DeleteIf(key, IfValue([]byte("abc")))
		case 1:
			err = b.Require(key, IfValue([]byte("ab")))
		case 2: // so much that it equals no value
			err = b.DeleteIf(key, IfValue(make([]byte, MaxValueBytes+5)))
		}
		if err != nil || b.core.CondBytes() != want {
			t.Errorf("condition %d: %d bytes, want %d, %v", i, b.core.CondBytes(), want, err)
		}
	}
}
