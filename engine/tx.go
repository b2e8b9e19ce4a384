package engine

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/keycodec"
	"github.com/kstonedb/kstone/memtable"
)

// Tx is a transaction: it reads a snapshot with its own writes on top, and commits
// all its writes at once if nothing it has read has changed since (serializable
// isolation, optimistic: nobody waits, the later commit loses). It belongs to the
// function it was given to and to one goroutine.
type Tx struct {
	db       *DB
	node     snapNode
	readOnly bool
	done     bool

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
	defer tx.finish()
	return fn(tx)
}

// Update runs fn and, if it returns nil, commits what it has written, at the
// database's durability. If something fn has read was changed by another commit, the
// error matches ErrConflict and nothing is written. An error of fn is returned as it
// is and nothing is written.
func (db *DB) Update(ctx context.Context, fn func(*Tx) error) error {
	if err := db.writable(); err != nil {
		return err
	}
	tx, err := db.begin(ctx, false)
	if err != nil {
		return err
	}
	defer tx.finish()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.commit(ctx)
}

// UpdateRetry is Update that runs fn again after a conflict, with growing random
// pauses, until it commits, fails otherwise, or ctx ends. Fn must not have effects
// outside the transaction that cannot be repeated.
func (db *DB) UpdateRetry(ctx context.Context, fn func(*Tx) error) error {
	const first, most = 50 * time.Microsecond, 50 * time.Millisecond
	for pause := first; ; pause = min(2*pause, most) {
		err := db.Update(ctx, fn)
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
	tx := &Tx{db: db, readOnly: readOnly}
	db.takeSnapshot(&tx.node)
	return tx, nil
}

func (tx *Tx) finish() {
	if !tx.done {
		tx.done = true
		tx.db.snaps.release(&tx.node)
	}
}

func (tx *Tx) check() error {
	if tx.done || tx.db.closed.Load() {
		return ErrClosed
	}
	return nil
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

// Get is DB.Get in the transaction.
func (tx *Tx) Get(key Key) ([]byte, error) { return tx.AppendGet(nil, key) }

// AppendGet is DB.AppendGet in the transaction.
func (tx *Tx) AppendGet(dst []byte, key Key) ([]byte, error) {
	var e base.Entry
	if err := tx.lookup(key, &e); err != nil {
		return dst, err
	}
	if dst == nil {
		dst = make([]byte, 0, len(e.Value))
	}
	return append(dst, e.Value...), nil
}

// GetItem is DB.GetItem in the transaction. The Version of an item that the
// transaction itself has written is 0.
func (tx *Tx) GetItem(key Key) (Item, error) {
	var e base.Entry
	if err := tx.lookup(key, &e); err != nil {
		return Item{}, err
	}
	it := Item{Key: key, Value: e.Value, Expiry: e.Expiry, Version: uint64(e.Seq)}
	if e.Seq >= overlayBase {
		it.Version = 0
	}
	return it.Clone(), nil
}

// Has is DB.Has in the transaction.
func (tx *Tx) Has(key Key) (bool, error) {
	var e base.Entry
	return found(tx.lookup(key, &e))
}

func (tx *Tx) lookup(key Key, e *base.Entry) error {
	if err := tx.check(); err != nil {
		return err
	}
	if err := key.Validate(); err != nil {
		return keyError("", err)
	}
	k := keycodec.AppendOrdered(nil, key)
	id := keycodec.Stripe(key.PK)
	if t := tx.overlay[id]; t != nil {
		cover := base.SeqNum(0)
		if t.HasRanges() {
			cover = t.CoverSeq(k, base.MaxSeqNum)
		}
		switch own := t.Get(k, tx.db.hash(k), base.MaxSeqNum, e); {
		case own && e.Seq >= cover:
			if !tx.db.live(e) {
				return ErrNotFound
			}
			return nil
		case own || cover > 0:
			return ErrNotFound
		}
	}
	if !tx.readOnly {
		tx.keys = append(tx.keys, readKey{id, k})
		tx.stripes.add(id)
	}
	return tx.db.lookup(key, tx.node.seq, e)
}

// readSpan notes that the transaction depends on all keys of the span.
func (tx *Tx) readSpan(id uint8, s span) {
	if !tx.readOnly {
		s = span{bytes.Clone(s.lo), bytes.Clone(s.hi)}
		tx.spans = append(tx.spans, readSpan{id, s})
		tx.stripes.add(id)
	}
}

// Put stores value under key when the transaction commits; ttl as in Batch.Put.
func (tx *Tx) Put(key Key, value []byte, ttl time.Duration) error {
	if err := tx.checkWrite(); err != nil {
		return err
	}
	if err := tx.batch.Put(key, value, ttl); err != nil {
		return err
	}
	e := base.Entry{Kind: base.KindPut}
	if ttl > 0 {
		e.Kind, e.Expiry = base.KindPutTTL, expiryAt(tx.db.nowMs(), ttl)
	}
	tx.insert(&e)
	return nil
}

// PutUntil is Put of an item that expires at a moment, as Batch.PutUntil.
func (tx *Tx) PutUntil(key Key, value []byte, expiryMs int64) error {
	if err := tx.checkWrite(); err != nil {
		return err
	}
	if err := tx.batch.PutUntil(key, value, expiryMs); err != nil {
		return err
	}
	e := base.Entry{Kind: base.KindPut, Expiry: expiryMs}
	if expiryMs > 0 {
		e.Kind = base.KindPutTTL
	}
	tx.insert(&e)
	return nil
}

// PutIfAbsent is Put unless the key has an item in the transaction; then the error is
// a *ConditionError.
func (tx *Tx) PutIfAbsent(key Key, value []byte, ttl time.Duration) error {
	return tx.PutIf(key, value, IfAbsent(), ttl)
}

// PutIf is Put if the key's item in the transaction satisfies cond; if not, the error is a
// *ConditionError. An item that the transaction itself has written has the version 0.
func (tx *Tx) PutIf(key Key, value []byte, cond Condition, ttl time.Duration) error {
	if err := tx.checkCondition(key, cond); err != nil {
		return err
	}
	return tx.Put(key, value, ttl)
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
	var e base.Entry
	exists, err := found(tx.lookup(key, &e))
	if err != nil {
		return err
	}
	if e.Seq >= overlayBase {
		e.Seq = 0
	}
	if cond.holds(exists, e.Seq, e.Value) {
		return nil
	}
	ce := &ConditionError{Key: Item{Key: key}.Clone().Key, Exists: exists}
	if exists {
		ce.Version = uint64(e.Seq)
	}
	return ce
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

// Query is DB.Query in the transaction. Do not write in the loop body.
func (tx *Tx) Query(ctx context.Context, q Query) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		report(yield, tx.db.query(ctx, &q, reader{tx: tx}, yield))
	}
}

// Scan is DB.Scan in the transaction. Do not write in the loop body.
func (tx *Tx) Scan(ctx context.Context, s Scan) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		report(yield, tx.db.scan(ctx, &s, reader{tx: tx}, yield))
	}
}

// overlay returns the uncommitted writes on a stripe, nil if there are none.
func (r reader) overlay(id uint8) *memtable.Table {
	if r.tx == nil {
		return nil
	}
	return r.tx.overlay[id]
}

func (tx *Tx) commit(ctx context.Context) error {
	if err := tx.check(); err != nil {
		return err
	}
	if tx.batch.Len() == 0 { // what was read is a snapshot, serializable by itself
		return tx.db.unchanged(tx.db.opts.Durability, nil)
	}
	g := &guard{stripes: tx.stripes, check: tx.validate}
	err := tx.db.commit(ctx, &tx.batch, terms{durability: tx.db.opts.Durability}, g)
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
