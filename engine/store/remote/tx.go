package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/internal/base"
)

// Transactions of stores whose own commits take all conditions and writes at once.
//
// The naive way: read the newest state, collect the writes, send them in the end. Why it fails: two
// transactions that add to one row both read the old value, and one addition is lost.
//
// The way taken: a transaction reads its Base, all as of one moment, with its own writes on top,
// and notes what it has read: keys, present or absent, and ranges, with what they lack. In the end
// the base writes everything in one atomic commit of the store, which proves that nothing of what
// was read has changed since the moment. So the transaction takes place at the moment of its
// commit, as if it had read only then: it is serialisable. One that writes nothing takes place at
// the moment of its reads and proves nothing.
//
// How to prove depends on the store, and ranges are the hard part: see etcd's and TiKV's Base.
//
// A crash before the commit leaves nothing, as nothing was sent. In the commit it leaves what a
// crash in any commit of the store leaves.

// Base is what a transaction stands on: reads as of one moment, which the first of them fixes, and
// a commit that is based on them.
type Base interface {
	View
	// Commit writes all if nothing that was read has changed since the moment. Otherwise it writes
	// nothing, and the error matches ErrConflict.
	Commit(ctx context.Context, reads *Reads, writes []Write) error
}

// Tx is a transaction: a store.Tx.
type Tx struct {
	Reader
	base     Base
	view     txView
	limits   store.Limits
	readOnly bool
	saved    uint64
	marks    []txMark // the savepoints, the oldest first
	end      atomic.Int32
	timer    *time.Timer // of TxOptions.MaxAge, or nil
}

var _ store.Tx = (*Tx)(nil)

// How a transaction has ended.
const (
	txEnded   = 1 // by End or Rollback
	txExpired = 2 // by its age
)

// txMark is a savepoint: so many writes come before it.
type txMark struct {
	number uint64
	writes int
}

// Begin begins a transaction over a base, without a request. R is the store's reader.
func Begin(r Reader, base Base, l store.Limits, o *store.TxOptions) (*Tx, error) {
	tx := &Tx{Reader: r, base: base, limits: l}
	tx.Ahead = NoAhead // what nobody asks for is not proven
	tx.view.tx = tx
	tx.view.base = newLateView(base, func() error { return nil })
	tx.view.reads.keep = l.CommitOps
	tx.View = func(context.Context, bool) (View, func(), error) {
		return &tx.view, func() {}, tx.check()
	}
	if o == nil {
		return tx, nil
	}
	tx.readOnly = o.ReadOnly
	switch {
	case o.MaxAge < 0:
		return nil, fmt.Errorf("%w: MaxAge is %s", store.ErrInvalid, o.MaxAge)
	case o.MaxAge > 0:
		tx.timer = time.AfterFunc(o.MaxAge, func() { tx.end.CompareAndSwap(0, txExpired) })
	}
	return tx, nil
}

// check returns why the transaction cannot be used any more.
func (tx *Tx) check() error {
	switch tx.end.Load() {
	case 0:
		return nil
	case txExpired:
		return store.ErrTxAge
	}
	return fmt.Errorf("transaction: %w", store.ErrClosed)
}

// Commit implements store.Writer: it checks the conditions and adds the writes.
func (tx *Tx) Commit(ctx context.Context, w *store.WriteSet) error {
	each := tx.limits
	each.CommitOps, each.CommitBytes = 0, 0 // those are of the transaction: see fits
	if err := cmp.Or(store.CheckContext(ctx), tx.check(), w.Validate(each)); err != nil {
		return err
	}
	b := tx.Layout.NewBatch(w)
	if tx.readOnly && len(b.Writes) > 0 {
		return fmt.Errorf("transaction: %w: so it has begun", store.ErrReadOnly)
	}
	if len(b.Conds) > 0 {
		pairs, err := tx.view.Get(ctx, b.CondKeys())
		if err == nil {
			err = b.Check(w, pairs, tx.Now())
		}
		if err != nil {
			return err
		}
	}
	own := &tx.view.own
	before := len(own.undo)
	for _, write := range b.Writes {
		own.write(write)
	}
	if err := tx.fits(); err != nil {
		own.rollback(before)
		return err
	}
	return nil
}

// fits returns an error if the writes are more than one commit takes.
func (tx *Tx) fits() error {
	own, l := &tx.view.own, &tx.limits
	switch {
	case l.CommitOps > 0 && own.live > l.CommitOps:
		return fmt.Errorf("%w: the transaction writes %d items, limit is %d: "+
			"commit what it has written before", store.ErrTooLarge, own.live, l.CommitOps)
	case l.CommitBytes > 0 && own.bytes > l.CommitBytes:
		return fmt.Errorf("%w: the transaction writes %d bytes, limit is %d: "+
			"commit what it has written before", store.ErrTooLarge, own.bytes, l.CommitBytes)
	}
	return nil
}

// End implements store.Tx.
func (tx *Tx) End(ctx context.Context) error {
	if err := cmp.Or(tx.stop(), store.CheckContext(ctx)); err != nil {
		return err
	}
	writes := tx.view.own.writes()
	if len(writes) == 0 {
		return nil
	}
	return tx.base.Commit(ctx, &tx.view.reads, writes)
}

// stop ends the transaction, unless it has ended.
func (tx *Tx) stop() error {
	if !tx.end.CompareAndSwap(0, txEnded) {
		return tx.check()
	}
	if tx.timer != nil {
		tx.timer.Stop()
	}
	return nil
}

// Rollback implements store.Tx.
func (tx *Tx) Rollback() { _ = tx.stop() }

// Expired implements store.Tx.
func (tx *Tx) Expired() bool { return tx.end.Load() == txExpired }

// Savepoint implements store.Tx.
func (tx *Tx) Savepoint() store.Savepoint {
	tx.saved++
	tx.marks = append(tx.marks, txMark{tx.saved, len(tx.view.own.undo)})
	return store.Savepoint(tx.saved)
}

// RollbackTo implements store.Tx.
func (tx *Tx) RollbackTo(s store.Savepoint) error {
	i, err := tx.find(s)
	if err = cmp.Or(err, tx.check()); err != nil {
		return err
	}
	tx.view.own.rollback(tx.marks[i].writes)
	tx.marks = tx.marks[:i+1]
	return nil
}

// Release implements store.Tx.
func (tx *Tx) Release(s store.Savepoint) error {
	i, err := tx.find(s)
	if err == nil {
		tx.marks = tx.marks[:i]
	}
	return err
}

func (tx *Tx) find(s store.Savepoint) (int, error) {
	i := slices.IndexFunc(tx.marks, func(m txMark) bool { return m.number == uint64(s) })
	if i < 0 {
		return 0, fmt.Errorf("%w: the transaction has no such savepoint any more",
			store.ErrInvalid)
	}
	return i, nil
}

// txView reads the base with the writes of a transaction on top, and notes what it has read.
type txView struct {
	tx    *Tx
	base  View
	own   overlay
	reads Reads
}

// Get implements View. What was looked up before is not asked for again.
func (v *txView) Get(ctx context.Context, keys [][]byte) ([]Pair, error) {
	if err := v.tx.check(); err != nil {
		return nil, err
	}
	out := make([]Pair, len(keys))
	var ask [][]byte
	var at []int
	for i, key := range keys {
		value, own := v.own.find(key)
		if own {
			out[i].Value = value
		} else if p, ok := v.reads.pair(key); ok {
			out[i] = p
		} else {
			ask, at = append(ask, key), append(at, i)
		}
		out[i].Key = key
	}
	if len(ask) == 0 {
		return out, nil
	}
	pairs, err := v.base.Get(ctx, ask)
	if err != nil {
		return nil, err
	}
	for j, p := range pairs {
		if out[at[j]] = p; !v.tx.readOnly {
			v.reads.key(ask[j], p)
		}
	}
	return out, nil
}

// Pages implements View. A page may have more pairs than its limit: those that the transaction has
// written between them.
func (v *txView) Pages(ctx context.Context, spans []Span) ([]Page, error) {
	if err := v.tx.check(); err != nil {
		return nil, err
	}
	out, left, open := make([]Page, len(spans)), slices.Clone(spans), make([]int, len(spans))
	for i := range open {
		open[i] = i
	}
	for len(open) > 0 { // again for pages that the transaction has emptied
		pages, err := v.base.Pages(ctx, left)
		if err != nil {
			return nil, err
		}
		n := 0
		for j := range pages {
			i, span := open[j], left[j]
			rest := cutPage(&span, &pages[j])
			if !v.tx.readOnly {
				v.reads.span(span.Start, span.End, pages[j].Pairs)
			}
			out[i] = Page{Pairs: v.own.over(pages[j].Pairs, &span), More: pages[j].More}
			if len(out[i].Pairs) == 0 && out[i].More {
				open[n], left[n] = i, rest
				n++
			}
		}
		open, left = open[:n], left[:n]
	}
	return out, nil
}

// cutPage cuts a span to what a page of it has read, and returns the rest.
func cutPage(span *Span, p *Page) (rest Span) {
	rest = *span
	switch {
	case !p.More:
		rest.Start = rest.End
	case span.Reverse:
		span.Start = p.Pairs[len(p.Pairs)-1].Key
		rest.End = span.Start
	default:
		span.End = append(slices.Clip(p.Pairs[len(p.Pairs)-1].Key), 0)
		rest.Start = span.End
	}
	return rest
}

// Between two attempts Retry waits up to firstWait, then twice as long, up to mostWait.
const (
	firstWait = 2 * time.Millisecond
	mostWait  = 200 * time.Millisecond
)

// Retry runs what may conflict with others until it does not, at most so many times, or until ctx
// ends.
func Retry(ctx context.Context, attempts int, run func() error) error {
	for wait := firstWait; ; wait = min(2*wait, mostWait) {
		err := run()
		if attempts--; attempts == 0 || !errors.Is(err, store.ErrConflict) {
			return err
		}
		if base.Sleep(ctx, rand.N(wait)) != nil {
			return err
		}
	}
}

// Update runs fn in a transaction and commits it: see store.Transactor.
func Update(
	ctx context.Context, begin func(context.Context, *store.TxOptions) (store.Tx, error),
	fn func(store.Tx) error,
) error {
	err := Retry(ctx, math.MaxInt, func() error { return update(ctx, begin, fn) })
	if errors.Is(err, store.ErrConflict) {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}

func update(
	ctx context.Context, begin func(context.Context, *store.TxOptions) (store.Tx, error),
	fn func(store.Tx) error,
) error {
	tx, err := begin(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fn(tx); err != nil {
		return err
	}
	return tx.End(ctx)
}
