package torture

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/kstonedb/kstone/engine"
)

// do runs one step on the database. Expected says whether its condition holds.
func (c *child) do(ctx context.Context, s *step, p *progress, expected bool) error {
	o := engine.Process
	if s.durable && !c.o.NoSync {
		o = engine.Sync
	}
	var err error
	switch s.kind {
	case stepSync:
		if c.o.NoSync {
			return nil
		}
		return c.db.Sync(ctx)
	case stepBatch:
		return c.batch(ctx, s, o)
	case stepUpdate:
		return c.update(ctx, s, p, o)
	case stepTransfer:
		return c.transfer(ctx, s, o)
	case stepPut:
		var ttl engine.TTL
		if s.num%5 == 0 {
			ttl = engine.TTL(1000 * time.Hour)
		}
		return c.db.Put(s.changes[0].key, s.changes[0].value, ttl, o)
	case stepDelete:
		return c.db.Delete(s.changes[0].key, o)
	case stepDeleteRange:
		ch := &s.changes[0]
		if ch.from > ch.to {
			s.durable = false // an empty range is not a commit, and syncs nothing
		}
		return c.db.DeleteRange(ch.key.PK, engine.SKBetween([]byte(ch.from), []byte(ch.to)), o)
	case stepPutIfAbsent:
		err = c.db.PutIf(s.changes[0].key, s.changes[0].value, engine.IfAbsent(), o)
	case stepPutIf:
		err = c.db.PutIf(s.changes[0].key, s.changes[0].value, engine.IfPresent(), o)
	case stepDeleteIf:
		err = c.db.DeleteIf(s.changes[0].key, engine.IfPresent(), o)
	}
	if failed := errors.Is(err, engine.ErrConditionFailed); failed == expected {
		return fmt.Errorf("condition on %s: got %v, expected it to hold: %v",
			s.changes[0].key, err, expected)
	} else if failed {
		// Nothing was logged; what was acknowledged before may not be synced.
		s.durable = false
		return nil
	}
	return err
}

// writes is what batches and transactions have in common.
type writes interface {
	Put(key engine.Key, value []byte, opts ...engine.ItemOption) error
	Delete(key engine.Key) error
	DeleteRange(pk []byte, sk engine.SKCondition) error
}

// collect adds the changes of a step, and the worker's counter.
func collect(to writes, s *step) error {
	for i := range s.changes {
		ch := &s.changes[i]
		var err error
		switch {
		case ch.isRange():
			err = to.DeleteRange(ch.key.PK,
				engine.SKBetween([]byte(ch.from), []byte(ch.to)))
		case ch.value == nil:
			err = to.Delete(ch.key)
		default:
			err = to.Put(ch.key, ch.value)
		}
		if err != nil {
			return err
		}
	}
	return to.Put(counterKey(s.worker), []byte(strconv.Itoa(s.num)))
}

func (c *child) batch(ctx context.Context, s *step, o engine.Durability) error {
	b := engine.NewBatch()
	if err := collect(b, s); err != nil {
		return err
	}
	return c.db.Apply(ctx, b, o)
}

// update is a transaction that counts what the worker has before and after the writes.
func (c *child) update(ctx context.Context, s *step, p *progress, o engine.Durability) error {
	return c.db.UpdateRetry(ctx, func(tx *engine.Tx) error {
		if err := collect(tx, s); err != nil {
			return err
		}
		n := 0
		for i := range partitions {
			pk := fmt.Appendf(nil, "w%d/%d", s.worker, i)
			for it, err := range tx.Query(ctx, engine.Query{PK: pk}) {
				if err != nil {
					return err
				}
				if p.items[mapKey(it.Key)] != string(it.Value) {
					return fmt.Errorf("the transaction reads %.60q under %s", it.Value, it.Key)
				}
				n++
			}
		}
		if n != len(p.items) {
			return fmt.Errorf("the transaction sees %d items, want %d", n, len(p.items))
		}
		return nil
	}, o)
}

// transfer moves an amount between two accounts, as far as the first has it.
func (c *child) transfer(ctx context.Context, s *step, o engine.Durability) error {
	return c.db.UpdateRetry(ctx, func(tx *engine.Tx) error {
		if s.from != s.to {
			var have [2]int
			for i, n := range []int{s.from, s.to} {
				v, err := tx.Get(accountKey(n))
				if err != nil {
					return err
				}
				if have[i], err = strconv.Atoi(string(v)); err != nil {
					return err
				}
			}
			amount := min(s.amount, have[0])
			have[0], have[1] = have[0]-amount, have[1]+amount
			for i, n := range []int{s.from, s.to} {
				if err := tx.Put(accountKey(n), []byte(strconv.Itoa(have[i]))); err != nil {
					return err
				}
			}
		}
		return collect(tx, s)
	}, o)
}
