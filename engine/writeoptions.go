package engine

import (
	"time"

	"github.com/kstonedb/kstone/engine/internal/commit"
	"github.com/kstonedb/kstone/internal/base"
)

// WriteOption says how a write differs from the usual one. Those of an item are [TTL] and
// [Expiry], those of a commit [Durability] and [MaxWait]. Of several that say the same the
// last counts; TTL and Expiry do. A nil option says nothing.
type WriteOption interface{ forWrite() }

// ItemOption is a WriteOption that belongs to the written item: TTL or Expiry.
type ItemOption interface {
	WriteOption
	forItem()
}

// CommitOption is a WriteOption that belongs to the whole commit: Durability or MaxWait.
type CommitOption interface {
	WriteOption
	forCommit()
}

// TTL makes the written item expire that long after the commit, in whole milliseconds and at
// least one. 0 means never; negative is an error.
type TTL time.Duration

// Expiry makes the written item expire at a moment, in Unix milliseconds as in
// [Item].Expiry; 0 means never, negative is an error. A moment that has passed is allowed:
// the item is then never seen, but hides the one before.
type Expiry int64

// ExpiresAt returns the Expiry at t, to the millisecond. The zero Time means never, so that
// what [Item.ExpiresAt] returns can be passed on.
func ExpiresAt(t time.Time) Expiry {
	if t.IsZero() {
		return 0
	}
	return Expiry(base.ExpiryOf(t))
}

// MaxWait bounds how long a write waits for flushes and merges to catch up, or, a delete,
// for space on a full disk. Then nothing is written, and the error matches
// context.DeadlineExceeded and says what was waited for. 0 means no bound beyond the
// context's, if the call has one; negative is an error. Waiting for locks and for the sync
// of what is written is not bounded.
type MaxWait time.Duration

func (TTL) forWrite()        {}
func (Expiry) forWrite()     {}
func (MaxWait) forWrite()    {}
func (Durability) forWrite() {}

func (TTL) forItem()    {}
func (Expiry) forItem() {}

func (MaxWait) forCommit()    {}
func (Durability) forCommit() {}

// writeTerms are what all options of a write say together.
type writeTerms struct {
	terms    commit.Terms
	lifetime commit.Lifetime
}

// apply takes an option over. Why any: the three kinds of options become it without a search
// for their methods. The option does not escape, so that passing one does not allocate.
func (w *writeTerms) apply(option any) error {
	switch o := option.(type) {
	case nil:
	case TTL:
		if o < 0 {
			return invalid("TTL %v is negative", time.Duration(o))
		}
		w.lifetime = commit.Lifetime{TTL: time.Duration(o)}
	case Expiry:
		if o < 0 {
			return invalid("expiry %d is negative", int64(o))
		}
		w.lifetime = commit.Lifetime{Expiry: int64(o)}
	case Durability:
		if o > Process {
			return invalid("durability %d is unknown", uint8(o))
		}
		if o != DefaultDurability {
			w.terms.Sync = o == Sync
		}
	case MaxWait:
		if o < 0 {
			return invalid("MaxWait %v is negative", time.Duration(o))
		}
		w.terms.MaxWait = time.Duration(o)
	default:
		return invalid("a write option is not one of this package")
	}
	return nil
}

// defaults are the terms of a write without options.
func (db *DB) defaults() writeTerms {
	return writeTerms{terms: commit.Terms{Sync: db.opts.Durability == Sync}}
}

// take takes over the options of a single write.
func (w *writeTerms) take(opts []WriteOption) error {
	for _, o := range opts {
		if err := w.apply(o); err != nil {
			return err
		}
	}
	return nil
}

// terms returns what the options of a commit say.
func (db *DB) terms(opts []CommitOption) (commit.Terms, error) {
	w := db.defaults()
	for _, o := range opts {
		if err := w.apply(o); err != nil {
			return w.terms, err
		}
	}
	return w.terms, nil
}

// lifetimeOf returns what the options of an item say.
func lifetimeOf(opts []ItemOption) (commit.Lifetime, error) {
	var w writeTerms
	for _, o := range opts {
		if err := w.apply(o); err != nil {
			return w.lifetime, err
		}
	}
	return w.lifetime, nil
}
