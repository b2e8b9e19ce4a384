package engine

import (
	"context"
	"sync"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/wal"
)

// single is a write of one key on its way into the database: what a batch is for many,
// without the parts that only several operations need. Most commits are of this kind.
type single struct {
	kind   base.Kind
	key    []byte // ordered
	record []byte // the log record
	ttl    time.Duration
}

// singlePool recycles the buffers of single writes.
var singlePool = sync.Pool{New: func() any { return new(single) }}

func (w *single) release() {
	if cap(w.record) <= maxPooledBytes && cap(w.key) <= maxPooledBytes {
		singlePool.Put(w)
	}
}

// putIf stores value under key if cond holds.
func (db *DB) putIf(key Key, value []byte, cond Condition, o *WriteOptions) error {
	if err := checkItem(key, value); err != nil {
		return err
	}
	w := singlePool.Get().(*single)
	defer w.release()
	if o != nil && o.TTL != 0 {
		if o.TTL < 0 {
			return invalid("TTL %v is negative", o.TTL)
		}
		w.kind, w.ttl = base.KindPutTTL, o.TTL
		w.record = wal.AppendPutTTL(w.record[:0], key.PK, key.SK, value, 0)
	} else {
		w.kind = base.KindPut
		w.record = wal.AppendPut(w.record[:0], key.PK, key.SK, value)
	}
	return db.writeSingle(w, key, value, cond, o)
}

// deleteIf removes key's item if cond holds.
func (db *DB) deleteIf(key Key, cond Condition, o *WriteOptions) error {
	if err := checkItem(key, nil); err != nil {
		return err
	}
	w := singlePool.Get().(*single)
	defer w.release()
	w.kind = base.KindDelete
	w.record = wal.AppendDelete(w.record[:0], key.PK, key.SK)
	return db.writeSingle(w, key, nil, cond, o)
}

// writeSingle is commit for one operation: the same steps in the same order.
func (db *DB) writeSingle(w *single, key Key, value []byte, cond Condition, o *WriteOptions) error {
	t, err := db.terms(o)
	if err != nil {
		return err
	}
	if err := db.writable(); err != nil {
		return err
	}
	n := int64(len(w.record))
	err = db.memory.admit(context.Background(), db, n, w.kind == base.KindDelete, t.maxWait)
	if err != nil {
		return err
	}
	start := db.metrics.writeStart()
	id := keycodec.Stripe(key.PK)
	w.key = keycodec.AppendOrdered(w.key[:0], key)
	e := base.Entry{Key: w.key, Kind: w.kind, Value: value}
	if w.kind == base.KindPutTTL { // after the wait for room, from which on it lives
		e.Expiry = expiryAt(db.nowMs(), w.ttl)
		wal.SetExpiry(w.record, e.Expiry)
	}
	db.stripes[id].Lock()
	err = db.singleLocked(id, &e, w.record, key, cond)
	db.stripes[id].Unlock()
	if err != nil {
		return db.unchanged(t.durability, err)
	}
	return db.committed(e.Seq, 1, n, t.durability, start)
}

// singleLocked logs and inserts the entry and sets its sequence number. Requires: the
// stripe is locked.
func (db *DB) singleLocked(
	id uint8, e *base.Entry, record []byte, key Key, cond Condition,
) error {
	if db.closed.Load() {
		return ErrClosed
	}
	s := &db.stripes[id]
	hash := db.hash(e.Key)
	if cond.kind != condNone {
		if err := db.checkCondition(id, e.Key, hash, key, cond); err != nil {
			return err
		}
	}
	db.makeRoom(s, int64(len(record)))
	seq, err := db.appendLog(record)
	if err != nil {
		return err
	}
	e.Seq = seq
	base.Yield()
	grown := s.Put(e, hash, db.snaps.horizon())
	if db.opts.FlushRecords > 0 {
		db.limitRecords(s)
	}
	db.memory.grow(db, grown)
	return nil
}
