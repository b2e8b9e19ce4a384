package kv

import (
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// Block is a number of items that an iteration has at hand together. Their keys are decoded when
// they are asked for. It belongs to one goroutine.
//
// Ownership: all it returns is valid in the call that it was handed to, a key until the next call
// of Key or Item.
type Block struct {
	rows   []base.Entry
	plain  Entries // instead of rows, if not nil, with values
	values base.Values
	pk     []byte // of all rows, if not nil;
	skip   int    // then the length of what is before their sort keys
	stripe uint8
	item   *Item         // instead of rows
	one    [1]base.Entry // item, for Values
	key    []byte        // of an entry
	buf    []byte        // of its partition key
	shared int           // how many bytes keys begin with that prefix is of; negative: not known
	prefix keyPrefix
}

// Entries are items without their keys: only the values are at hand. They do not expire.
type Entries interface {
	Values() base.Values
	KeyBytes(i int) int
	Bytes() int                     // of all
	AppendPrefix(dst []byte) []byte // appends what all keys begin with
	Suffix(i int) []byte            // of a key after that; AppendPrefix comes before
	Seq(i int) base.SeqNum
}

// SetEntries is SetRows of items without their keys.
func SetEntries(b *Block, of Entries, pk []byte, skip int, stripe uint8) {
	SetRows(b, nil, pk, skip, stripe)
	b.plain, b.values, b.shared = of, of.Values(), -1
}

// SetRows makes a block of entries. If pk is not nil, it is the partition key of all of them, and
// their sort keys begin at skip.
func SetRows(b *Block, rows []base.Entry, pk []byte, skip int, stripe uint8) {
	b.rows, b.pk, b.skip, b.stripe = rows, pk, skip, stripe
	b.item, b.plain = nil, nil
}

// SetItem makes it the block that has one item.
func (b *Block) SetItem(item *Item) { b.item, b.rows, b.plain = item, nil, nil }

// Len returns the number of items.
func (b *Block) Len() int {
	switch {
	case b.plain != nil:
		return len(b.values.Places)
	case b.item != nil:
		return 1
	}
	return len(b.rows)
}

// Stripe returns the stripe of an unordered scan that the items come from; 0 in others, and if they
// come from several.
func (b *Block) Stripe() int { return int(b.stripe) }

// Value returns the value of item i.
func (b *Block) Value(i int) []byte {
	switch {
	case b.plain != nil:
		return b.values.At(i)
	case b.item != nil:
		return b.item.Value
	}
	return b.rows[i].Value
}

// Values returns the values of all items.
func (b *Block) Values() base.Values {
	switch {
	case b.plain != nil:
		return b.values
	case b.item != nil:
		b.one[0].Value = b.item.Value
		return base.Values{Rows: b.one[:]}
	}
	return base.Values{Rows: b.rows}
}

// Bytes returns the length of all keys, in their ordered form, and values.
func (b *Block) Bytes() int {
	if b.plain != nil {
		return b.plain.Bytes()
	}
	n := 0
	for i := range b.Len() {
		n += b.KeyBytes(i) + len(b.Value(i))
	}
	return n
}

// KeyBytes returns the length of the key of item i, in its ordered form.
func (b *Block) KeyBytes(i int) int {
	switch {
	case b.plain != nil:
		return b.plain.KeyBytes(i)
	case b.item != nil:
		return len(b.item.Key.PK) + len(b.item.Key.SK)
	}
	return len(b.rows[i].Key)
}

// Key returns the key of item i. It fails with a *corrupt.Error if the key is damaged.
func (b *Block) Key(i int) (key Key, err error) {
	if b.item != nil {
		return b.item.Key, nil
	}
	var ordered []byte
	if b.plain != nil {
		if b.shared < 0 {
			b.key = b.plain.AppendPrefix(b.key[:0])
			b.shared = len(b.key)
			b.prefix.init(b.key)
		}
		b.key = append(b.key[:b.shared], b.plain.Suffix(i)...)
		if ordered = b.key; b.pk == nil {
			key, b.buf, err = b.prefix.decode(ordered, b.buf[:0])
			return key, err
		}
	} else {
		ordered = b.rows[i].Key
	}
	if b.pk == nil {
		key, b.buf, err = keycodec.DecodeOrdered(ordered, b.buf[:0])
		return key, err
	}
	key.PK = b.pk
	if n := len(ordered); n > b.skip {
		key.SK = ordered[b.skip:n:n]
	}
	return key, nil
}

// Item returns item i.
func (b *Block) Item(i int) (Item, error) {
	if b.item != nil {
		return *b.item, nil
	}
	key, err := b.Key(i)
	if b.plain != nil {
		return Item{Key: key, Value: b.values.At(i), Version: uint64(b.plain.Seq(i))}, err
	}
	e := &b.rows[i]
	return Item{Key: key, Value: e.Value, Expiry: e.Expiry, Version: Version(e)}, err
}
