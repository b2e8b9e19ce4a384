package engine

import (
	"sync"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// Get returns the value of key in a slice the caller owns, or ErrNotFound.
func (db *DB) Get(key Key) ([]byte, error) { return db.AppendGet(nil, key) }

// AppendGet appends the value of key to dst and returns the extended slice. It
// allocates only if dst is too small. On an error it returns dst.
func (db *DB) AppendGet(dst []byte, key Key) ([]byte, error) {
	var e base.Entry
	if err := db.lookup(key, base.MaxSeqNum, &e); err != nil {
		return dst, err
	}
	if dst == nil {
		dst = make([]byte, 0, len(e.Value)) // not nil for an empty value
	}
	return append(dst, e.Value...), nil
}

// GetItem returns the item of key, with its version and expiry, or ErrNotFound. The
// caller owns it.
func (db *DB) GetItem(key Key) (Item, error) {
	var e base.Entry
	if err := db.lookup(key, base.MaxSeqNum, &e); err != nil {
		return Item{}, err
	}
	return itemOf(key, &e), nil
}

// Has reports whether key has an item.
func (db *DB) Has(key Key) (bool, error) {
	var e base.Entry
	return found(db.lookup(key, base.MaxSeqNum, &e))
}

func found(err error) (bool, error) {
	switch err {
	case nil:
		return true, nil
	case ErrNotFound:
		return false, nil
	}
	return false, err
}

// itemOf returns the item of a live version, which the caller owns.
func itemOf(key Key, e *base.Entry) Item {
	it := Item{Key: key, Value: e.Value, Expiry: e.Expiry, Version: uint64(e.Seq)}
	return it.Clone()
}

// scratch holds the ordered form of a key during a lookup.
type scratch struct{ key []byte }

var scratchPool = sync.Pool{New: func() any { return &scratch{key: make([]byte, 0, 256)} }}

// lookup finds the live version of key at snap. The error is exactly ErrNotFound if
// there is none. e.Value is immutable.
//
// At MaxSeqNum it never answers from a commit that is not yet complete: whoever has
// seen one key of a batch sees all others too. It then waits for the few memtable
// insertions that are missing, never for the disk, and looks again, because a later
// operation of the same batch may have touched the key. Complete is what was so before the
// key was looked up: a commit that has become complete since may have touched it again.
func (db *DB) lookup(key Key, snap base.SeqNum, e *base.Entry) error {
	if err := key.Validate(); err != nil {
		return keyError("", err)
	}
	start := db.metrics.readStart()
	buf := scratchPool.Get().(*scratch)
	buf.key = keycodec.AppendOrdered(buf.key[:0], key)
	s := &db.stripes[keycodec.Stripe(key.PK)]
	hash := db.hash(buf.key)
	complete := db.visible.load()
	ok, err := s.Get(buf.key, hash, snap, e)
	base.Yield()
	for err == nil && snap == base.MaxSeqNum && e.Seq > complete {
		db.visible.wait(e.Seq)
		complete = db.visible.load()
		ok, err = s.Get(buf.key, hash, snap, e)
	}
	scratchPool.Put(buf)
	db.metrics.readDone(start)
	if err != nil {
		return db.readError(err)
	}
	if !ok || !db.live(e) {
		return ErrNotFound
	}
	return nil
}
