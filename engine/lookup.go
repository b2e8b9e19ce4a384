package engine

import (
	"sync"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
)

// scratch holds the ordered form of a key during a lookup.
type scratch struct{ key []byte }

var scratchPool = sync.Pool{New: func() any { return &scratch{key: make([]byte, 0, 256)} }}

// lookup finds the live version of one key. The error is exactly ErrNotFound if there is
// none. f.Value is immutable.
func (r *reader) lookup(key Key, f *base.Lookup) error {
	if err := r.check(); err != nil {
		return err
	}
	if err := key.Validate(); err != nil {
		return keyError("", err)
	}
	buf := scratchPool.Get().(*scratch)
	buf.key = keycodec.AppendOrdered(buf.key[:0], key)
	f.Key, f.Hash = buf.key, r.db.hash(buf.key)
	err := r.find(keycodec.Stripe(key.PK), f)
	f.Key = nil
	scratchPool.Put(buf)
	if err == nil && !r.db.live(f) {
		return ErrNotFound
	}
	return err
}

// find looks one key of a stripe up.
func (r *reader) find(id uint8, f *base.Lookup) error {
	db := r.db
	if r.tx != nil && r.tx.answer(id, f) {
		return nil
	}
	start := db.metrics.readStart()
	defer db.metrics.readDone(start)
	if r.at == nil {
		return db.newestComplete(id, f)
	}
	base.Yield()
	err := db.newest(id, f, r.at.node.seq)
	if r.at.released.Load() { // what was found need not be of the moment any more
		return ErrClosed
	}
	return err
}

// newestComplete looks one key of a stripe up at the present.
//
// It never answers from a commit that is not yet complete: whoever has seen one key of a
// batch sees all others too. It then waits for the few memtable insertions that are
// missing, never for the disk, and looks again, because a later operation of the same batch
// may have touched the key. Complete is what was so before the key was looked up: a commit
// that has become complete since may have touched it again.
func (db *DB) newestComplete(id uint8, f *base.Lookup) error {
	complete := db.visible.load()
	err := db.newest(id, f, base.MaxSeqNum)
	base.Yield()
	for err == nil && f.Seq > complete {
		db.visible.wait(f.Seq)
		complete = db.visible.load()
		err = db.newest(id, f, base.MaxSeqNum)
	}
	return err
}

// newest looks one key of a stripe up at snap. If a range tombstone covers it, or nothing is
// found, f.Seq is the number of the tombstone, or 0.
//
// At MaxSeqNum it may find what a commit that is not complete has inserted, except while
// the stripe is locked.
func (db *DB) newest(id uint8, f *base.Lookup, snap base.SeqNum) error {
	var e base.Entry
	found, err := db.stripes[id].Get(f.Key, f.Hash, snap, &e)
	if err != nil {
		return db.readError(err)
	}
	f.Set(&e)
	f.Found = found
	return nil
}

// live reports whether a value was found that has not expired.
func (db *DB) live(f *base.Lookup) bool {
	return f.Found && (f.Kind == base.KindPut ||
		f.Kind == base.KindPutTTL && db.nowMs() < f.Expiry)
}
