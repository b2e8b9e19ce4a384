package engine

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/memtable"
)

// Tx is a transaction: it reads a snapshot with its own writes on top, and commits
// all its writes at once if nothing it has read has changed since (serializable
// isolation, optimistic: nobody waits, the later commit loses). It belongs to the
// function it was given to and to one goroutine. It is a [Reader].
type Tx struct {
	reader
	moment
	readOnly bool

	batch   Batch
	overlay [base.NumStripes]*memtable.Table // the writes, for reading them back
	writes  base.SeqNum                      // operations so far, numbers the overlay

	keys    []readKey
	spans   []readSpan
	stripes stripeSet // of keys and spans
}

// readKey is a key the transaction has looked up.
type readKey struct {
	stripe uint8
	key    []byte
}

// readSpan is a range of one stripe the transaction has iterated over. It counts as
// read as a whole, whatever part the loop got to see.
type readSpan struct {
	stripe uint8
	span   span
}

// overlayBase numbers a transaction's own writes above every real commit.
const overlayBase base.SeqNum = 1 << 55

// View runs fn on a snapshot. The transaction cannot write (ErrReadOnly).
func (db *DB) View(ctx context.Context, fn func(*Tx) error) error {
	tx, err := db.begin(ctx, true)
	if err != nil {
		return err
	}
	defer tx.release(db)
	return fn(tx)
}

// Update runs fn and, if it returns nil, commits what it has written. If something fn has
// read was changed by another commit, the error matches ErrConflict and nothing is
// written. An error of fn is returned as it is and nothing is written.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error, opts ...CommitOption) error {
	if err := db.writable(); err != nil {
		return err
	}
	t, err := db.terms(opts)
	if err != nil {
		return err
	}
	tx, err := db.begin(ctx, false)
	if err != nil {
		return err
	}
	defer tx.release(db)
	if err := fn(tx); err != nil {
		return err
	}
	return tx.commit(ctx, t)
}

// UpdateRetry is Update that runs fn again after a conflict, with growing random
// pauses, until it commits, fails otherwise, or ctx ends. Fn must not have effects
// outside the transaction that cannot be repeated.
func (db *DB) UpdateRetry(
	ctx context.Context, fn func(*Tx) error, opts ...CommitOption,
) error {
	const first, most = 50 * time.Microsecond, 50 * time.Millisecond
	for pause := first; ; pause = min(2*pause, most) {
		err := db.Update(ctx, fn, opts...)
		if !errors.Is(err, ErrConflict) {
			return err
		}
		t := time.NewTimer(rand.N(pause))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

func (db *DB) begin(ctx context.Context, readOnly bool) (*Tx, error) {
	if err := usable(ctx); err != nil {
		return nil, err
	}
	if db.closed.Load() {
		return nil, ErrClosed
	}
	tx := &Tx{readOnly: readOnly}
	tx.reader = reader{db: db, at: &tx.moment, tx: tx}
	db.takeSnapshot(&tx.node)
	return tx, nil
}

func (tx *Tx) checkWrite() error {
	if err := tx.check(); err != nil {
		return err
	}
	if tx.readOnly {
		return ErrReadOnly
	}
	return nil
}

// answer answers a lookup of a key of a stripe from the transaction's own writes and
// reports whether they decide it. If not, the key counts as read.
func (tx *Tx) answer(id uint8, f *base.Lookup) bool {
	if t := tx.overlay[id]; t != nil && written(t, f) {
		return true
	}
	if !tx.readOnly {
		tx.keys = append(tx.keys, readKey{id, bytes.Clone(f.Key)})
		tx.stripes.add(id)
	}
	return false
}

// written sets f to what was written about its key, with version 0, and reports whether
// anything was.
func written(t *memtable.Table, f *base.Lookup) bool {
	var cover base.SeqNum
	if t.HasRanges() {
		cover = t.CoverSeq(f.Key, base.MaxSeqNum)
	}
	var e base.Entry
	found := t.Get(f.Key, f.Hash, base.MaxSeqNum, &e)
	if !found && cover == 0 {
		return false
	}
	f.Set(&e)
	f.Seq = 0
	f.Found = found && e.Seq >= cover
	return true
}

// readSpan notes that the transaction depends on all keys of the span.
func (tx *Tx) readSpan(id uint8, s span) {
	if !tx.readOnly {
		s = span{bytes.Clone(s.lo), bytes.Clone(s.hi)}
		tx.spans = append(tx.spans, readSpan{id, s})
		tx.stripes.add(id)
	}
}

// Put stores value under key when the transaction commits. A TTL counts from then.
func (tx *Tx) Put(key Key, value []byte, opts ...ItemOption) error {
	if err := tx.checkWrite(); err != nil {
		return err
	}
	if err := tx.batch.Put(key, value, opts...); err != nil {
		return err
	}
	op := &tx.batch.ops[len(tx.batch.ops)-1]
	e := base.Entry{Kind: op.kind, Expiry: op.expiry}
	if op.ttl > 0 {
		e.Expiry = expiryAt(tx.db.nowMs(), op.ttl)
	}
	tx.insert(&e)
	return nil
}

// PutIf is Put if the key's item in the transaction satisfies cond; if not, the error is a
// *ConditionError. An item that the transaction itself has written has the version 0.
func (tx *Tx) PutIf(key Key, value []byte, cond Condition, opts ...ItemOption) error {
	if err := tx.checkCondition(key, cond); err != nil {
		return err
	}
	return tx.Put(key, value, opts...)
}

// DeleteIf is Delete if the key's item in the transaction satisfies cond; if not, the
// error is a *ConditionError.
func (tx *Tx) DeleteIf(key Key, cond Condition) error {
	if err := tx.checkCondition(key, cond); err != nil {
		return err
	}
	return tx.Delete(key)
}

func (tx *Tx) checkCondition(key Key, cond Condition) error {
	if err := tx.checkWrite(); err != nil {
		return err
	}
	if cond.kind == condNone {
		return nil
	}
	var f base.Lookup
	err := tx.lookup(key, &f)
	if err != nil && err != ErrNotFound {
		return err
	}
	exists := err == nil
	if cond.holds(exists, f.Seq, f.Value) {
		return nil
	}
	return conditionError(Item{Key: key}.Clone().Key, 0, exists, f.Seq)
}

// Delete removes key's item when the transaction commits.
func (tx *Tx) Delete(key Key) error {
	if err := tx.checkWrite(); err != nil {
		return err
	}
	if err := tx.batch.Delete(key); err != nil {
		return err
	}
	tx.insert(&base.Entry{Kind: base.KindDelete})
	return nil
}

// insert copies the last operation of the batch into the overlay.
func (tx *Tx) insert(e *base.Entry) {
	op := &tx.batch.ops[len(tx.batch.ops)-1]
	tx.writes++
	key := tx.batch.key(op)
	tx.table(op.stripe).Put(key, tx.db.hash(key), overlayBase+tx.writes, e.Kind, e.Expiry,
		tx.batch.valueOf(op), 0)
}

// DeleteRange is DB.DeleteRange in the transaction.
func (tx *Tx) DeleteRange(pk []byte, sk SKCondition) error {
	if err := tx.checkWrite(); err != nil {
		return err
	}
	n := len(tx.batch.ops)
	if err := tx.batch.DeleteRange(pk, sk); err != nil || len(tx.batch.ops) == n {
		return err
	}
	op := &tx.batch.ops[n]
	tx.writes++
	tx.table(op.stripe).DeleteRange(base.RangeTombstone{
		Start: bytes.Clone(tx.batch.key(op)), End: bytes.Clone(tx.batch.rangeEnd(op)),
		Seq: overlayBase + tx.writes,
	})
	return nil
}

func (tx *Tx) table(id uint8) *memtable.Table {
	if tx.overlay[id] == nil {
		tx.overlay[id] = memtable.New(memtable.Options{Seed: tx.db.env.Seed})
	}
	return tx.overlay[id]
}

func (tx *Tx) commit(ctx context.Context, t terms) error {
	if err := tx.check(); err != nil {
		return err
	}
	if tx.batch.Len() == 0 { // what was read is a snapshot, serializable by itself
		return tx.db.unchanged(t.durability, nil)
	}
	g := &guard{stripes: tx.stripes, check: tx.validate}
	err := tx.db.commit(ctx, &tx.batch, t, g)
	if errors.Is(err, ErrConflict) {
		tx.db.metrics.conflicts.Add(1)
	}
	return err
}

// validate checks that nothing the transaction has read has changed. Requires: the
// stripes of all reads are locked.
func (tx *Tx) validate() error {
	since := tx.node.seq
	for _, r := range tx.keys {
		s := &tx.db.stripes[r.stripe]
		seq, err := s.ChangedSince(r.key, tx.db.hash(r.key), since)
		if err != nil {
			return tx.db.readError(err)
		}
		if seq > 0 {
			return conflict(r.key, seq)
		}
	}
	for _, r := range tx.spans {
		key, seq, err := tx.db.stripes[r.stripe].ChangedIn(r.span.lo, r.span.hi, since)
		if err != nil {
			return tx.db.readError(err)
		}
		if seq > 0 {
			return conflict(key, seq)
		}
	}
	return nil
}

func conflict(ordered []byte, seq base.SeqNum) error {
	return &ConflictError{Key: keyOf(ordered), Version: uint64(seq)}
}

// keyOf returns a copy of the key with the given ordered form. Of the start of a range it
// returns the longest key at or before it: see stripeOfOrdered.
func keyOf(ordered []byte) Key {
	n, _ := keycodec.OrderedPKLen(ordered)
	ordered = ordered[:min(len(ordered), n+MaxKeyBytes)]
	k, _, err := keycodec.DecodeOrdered(ordered, nil)
	if err != nil {
		k = Key{PK: ordered} // not reachable: this package has encoded it
	}
	return Item{Key: k}.Clone().Key
}
