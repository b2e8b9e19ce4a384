package store

import "bytes"

// CondKind says what a Condition requires.
type CondKind uint8

// The kinds of conditions. An expired item counts as absent.
const (
	CondNone    CondKind = iota // nothing
	CondAbsent                  // that the key has no item
	CondPresent                 // that it has one
	CondValue                   // that its value equals Value
	CondVersion                 // that its Item.Version is Version
)

// Condition is what an operation requires of the item that its key has before the commit.
// The zero Condition requires nothing.
type Condition struct {
	Kind    CondKind
	Value   []byte
	Version uint64
}

// Absent requires that the key has no item.
func Absent() Condition { return Condition{Kind: CondAbsent} }

// Present requires that the key has an item.
func Present() Condition { return Condition{Kind: CondPresent} }

// ValueIs requires that the key's value equals v.
func ValueIs(v []byte) Condition { return Condition{Kind: CondValue, Value: v} }

// VersionIs requires that the key's item has exactly this version.
func VersionIs(v uint64) Condition { return Condition{Kind: CondVersion, Version: v} }

// OpKind says what an operation does.
type OpKind uint8

// The kinds of operations.
const (
	OpPut     OpKind = iota // stores Value
	OpDelete                // removes the item, which need not exist
	OpRequire               // writes nothing, has a condition only
)

// Op is one operation of a WriteSet.
type Op struct {
	Kind  OpKind
	Key   Key
	Value []byte
	// Expiry is the moment from which on the item is gone, in Unix milliseconds; 0 means
	// never.
	Expiry int64
	Cond   Condition
}

// Durability is how safe writes are when Commit returns. Local calls it engine.Durability.
type Durability uint8

// The levels.
const (
	DefaultDurability Durability = iota // the store's own
	Sync                                // survives power cuts
	Process                             // survives the end of the process
)

// WriteSet is a set of writes and conditions that are committed as one. Of two writes of
// one key the later wins. The zero WriteSet is empty and ready.
//
// Ownership: keys and values are referenced and must not change before Commit returns.
type WriteSet struct {
	Ops []Op
	// Durability is how safe the writes are when Commit returns; the zero value leaves it to
	// the store. A store without a choice ignores it.
	Durability Durability
}

// Put adds a write of value under key.
func (w *WriteSet) Put(key Key, value []byte) {
	w.Ops = append(w.Ops, Op{Key: key, Value: value})
}

// PutIf is Put with a condition.
func (w *WriteSet) PutIf(key Key, value []byte, cond Condition) {
	w.Ops = append(w.Ops, Op{Key: key, Value: value, Cond: cond})
}

// Delete adds the removal of key's item.
func (w *WriteSet) Delete(key Key) { w.Ops = append(w.Ops, Op{Kind: OpDelete, Key: key}) }

// DeleteIf is Delete with a condition.
func (w *WriteSet) DeleteIf(key Key, cond Condition) {
	w.Ops = append(w.Ops, Op{Kind: OpDelete, Key: key, Cond: cond})
}

// Require adds a condition.
func (w *WriteSet) Require(key Key, cond Condition) {
	w.Ops = append(w.Ops, Op{Kind: OpRequire, Key: key, Cond: cond})
}

// Len returns the number of operations.
func (w *WriteSet) Len() int { return len(w.Ops) }

// Bytes returns the size of all keys and values, those of conditions included.
func (w *WriteSet) Bytes() int {
	n := 0
	for i := range w.Ops {
		op := &w.Ops[i]
		n += len(op.Key.PK) + len(op.Key.SK) + len(op.Value) + len(op.Cond.Value)
	}
	return n
}

// Reset empties the set and keeps its memory.
func (w *WriteSet) Reset() {
	clear(w.Ops)
	w.Ops = w.Ops[:0]
}

// Validate checks what all implementations refuse, and the limits. The error matches
// ErrInvalid or ErrTooLarge, or is that of an invalid key.
func (w *WriteSet) Validate(l Limits) error {
	if l.CommitOps > 0 && len(w.Ops) > l.CommitOps {
		return tooLarge("write set of %d operations, limit is %d", len(w.Ops), l.CommitOps)
	}
	if n := w.Bytes(); l.CommitBytes > 0 && n > l.CommitBytes {
		return tooLarge("write set of %d bytes, limit is %d", n, l.CommitBytes)
	}
	for i := range w.Ops {
		if err := w.Ops[i].validate(l); err != nil {
			return err
		}
	}
	return nil
}

func (op *Op) validate(l Limits) error {
	largest := max(len(op.Key.PK), len(op.Key.SK))
	switch {
	case l.KeyBytes > 0 && largest > l.KeyBytes:
		return tooLarge("key of %d bytes, limit is %d", largest, l.KeyBytes)
	case l.ValueBytes > 0 && len(op.Value) > l.ValueBytes:
		return tooLarge("value of %d bytes, limit is %d", len(op.Value), l.ValueBytes)
	case op.Kind > OpRequire:
		return invalid("kind %d of operation is unknown", op.Kind)
	case op.Cond.Kind > CondVersion:
		return invalid("kind %d of condition is unknown", op.Cond.Kind)
	case op.Expiry < 0:
		return invalid("expiry %d is negative", op.Expiry)
	case op.Expiry != 0 && op.Kind != OpPut:
		return invalid("this operation cannot have an expiry")
	case op.Cond.Kind == CondVersion && l.NoVersions:
		return invalid("the store has no versions")
	case op.Kind == OpRequire && op.Cond.Kind == CondNone:
		return invalid("nothing is required")
	}
	return op.Key.Validate()
}

// Holds reports whether a key with this item, or without one if ok is false, satisfies the
// condition.
func (c Condition) Holds(it Item, ok bool) bool {
	switch c.Kind {
	case CondAbsent:
		return !ok
	case CondPresent:
		return ok
	case CondValue:
		return ok && bytes.Equal(it.Value, c.Value)
	case CondVersion:
		return ok && it.Version == c.Version
	}
	return true
}
