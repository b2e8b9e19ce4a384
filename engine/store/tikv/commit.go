package tikv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	tikverr "github.com/tikv/client-go/v2/error"
	clientkv "github.com/tikv/client-go/v2/kv"
	client "github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/txnkv/transaction"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
)

// maxAttempts bounds how often Commit tries a write set that conflicts with others.
const maxAttempts = 8

// Commit implements store.Writer.
func (s *Store) Commit(ctx context.Context, w *store.WriteSet) error {
	if err := cmp.Or(s.CheckCall(ctx), w.Validate(limits)); err != nil {
		return err
	}
	return s.commit(ctx, w, s.Layout.NewBatch(w))
}

func (s *Store) commit(ctx context.Context, w *store.WriteSet, b *remote.Batch) error {
	if len(b.Writes)+len(b.Conds) == 0 {
		return nil
	}
	ctx, cancel := s.Within(ctx)
	defer cancel()
	c := &commit{Store: s, w: w, b: b, presume: true}
	if done, err := c.early(ctx); done {
		return err
	}
	return remote.Retry(ctx, maxAttempts, func() error {
		err := c.try(ctx)
		if errors.Is(err, errPresumption) {
			// The condition may still hold: what is there has expired, or another condition
			// fails before. So all of them are read.
			c.presume = false
			err = c.try(ctx)
		}
		return err
	})
}

// errPresumption: a key that was presumed absent is there, or may be. Nothing was written.
var errPresumption = errors.New("tikv: a key is not absent")

// commit is a call of Commit.
type commit struct {
	*Store
	w       *store.WriteSet
	b       *remote.Batch
	presume bool   // keys that are put and have to be absent are not read
	now     uint64 // was taken since the call, and no transaction has begun at it; 0: there is none
}

// early commits from a timestamp at hand: see stamps.go. Done is false if that cannot be, or has
// written nothing; then the commit has to be tried.
func (c *commit) early(ctx context.Context) (done bool, err error) {
	conds, presumed := c.toRead()
	if len(conds.Conds) == 0 || len(c.b.Writes) == 0 {
		return false, nil
	}
	start := c.spares.take()
	if start == 0 {
		var spare uint64 // for the next commit
		c.now, err = c.beside(ctx, func() (err error) {
			spare, err = c.timestamp(ctx)
			return err
		})
		if err == nil {
			c.spares.put(spare)
		}
		return err != nil, err
	}
	c.now, err = c.beside(ctx, func() error { return c.check(ctx, conds, start) })
	if err == nil {
		err = c.write(ctx, start, c.now, presumed)
	}
	switch {
	case err == nil:
		c.spares.put(c.now)
	case errors.Is(err, store.ErrConditionFailed), errors.Is(err, store.ErrConflict):
		return false, nil
	case errors.Is(err, errPresumption):
		c.presume = false
		return false, nil
	}
	return true, err
}

// try commits once, in the usual order.
func (c *commit) try(ctx context.Context) (err error) {
	start := c.now
	if c.now = 0; start == 0 {
		if start, err = c.timestamp(ctx); err != nil {
			return err
		}
	}
	conds, presumed := c.toRead()
	if len(conds.Conds) > 0 {
		err = c.check(ctx, conds, start)
		if errors.Is(err, store.ErrConditionFailed) && len(conds.Conds) < len(c.b.Conds) {
			return errPresumption
		}
	}
	if err != nil || len(c.b.Writes) == 0 { // all at one moment, which is enough
		return err
	}
	return c.write(ctx, start, start, presumed)
}

// toRead returns the conditions that have to be read, and the keys that are presumed to be absent.
func (c *commit) toRead() (conds *remote.Batch, presumed map[string]bool) {
	if !c.presume {
		return c.b, nil
	}
	presumed = presumedAbsent(c.b)
	return &remote.Batch{
		Conds: slices.DeleteFunc(slices.Clone(c.b.Conds), func(c remote.Cond) bool {
			return c.Kind == store.CondAbsent && presumed[string(c.Key)]
		}),
	}, presumed
}

// check reads conditions as of a timestamp.
func (c *commit) check(ctx context.Context, conds *remote.Batch, ts uint64) error {
	pairs, err := c.at(ts).Get(ctx, conds.CondKeys())
	if err == nil {
		err = conds.Check(c.w, pairs, c.Now())
	}
	return err
}

// write carries out a transaction that begins at start and commits after now.
func (c *commit) write(
	ctx context.Context, start, now uint64, presumed map[string]bool,
) error {
	txn, err := c.kv.Begin(client.WithStartTS(start))
	if err != nil {
		return c.failure(ctx, "commit", err)
	}
	return c.send(ctx, txn, c.b, presumed, &sending{now: now})
}

// send adds the batch to a transaction and commits it.
func (s *Store) send(
	ctx context.Context, txn *transaction.KVTxn, b *remote.Batch, presumed map[string]bool,
	state *sending,
) error {
	txn.SetEnableAsyncCommit(!s.o.NoAsyncCommit && state.allow == nil)
	txn.SetEnable1PC(!s.o.NoOnePhase && state.allow == nil)
	if err := s.add(ctx, txn, b, presumed); err != nil {
		return cmp.Or(s.failure(ctx, "commit", err), txn.Rollback())
	}
	err := txn.Commit(context.WithValue(ctx, commitKey{}, state))
	if state.refused != nil {
		return state.refused
	}
	return s.outcome(ctx, err, state.decided.Load())
}

// presumedAbsent returns the keys that have to be absent and are put.
func presumedAbsent(b *remote.Batch) map[string]bool {
	keys := map[string]bool{}
	for i := range b.Conds {
		if b.Conds[i].Kind == store.CondAbsent {
			keys[string(b.Conds[i].Key)] = false
		}
	}
	for _, write := range b.Writes {
		if _, ok := keys[string(write.Key)]; ok {
			keys[string(write.Key)] = write.Value != nil
		}
	}
	return keys
}

// add adds the batch to a transaction.
func (s *Store) add(
	ctx context.Context, txn *transaction.KVTxn, b *remote.Batch, presumed map[string]bool,
) error {
	written := make(map[string]bool, len(b.Writes))
	for _, write := range b.Writes {
		written[string(write.Key)] = true
		var err error
		switch {
		case write.Value == nil:
			err = txn.Delete(write.Key)
		case presumed[string(write.Key)]:
			err = txn.GetMemBuffer().SetWithFlags(write.Key, write.Value,
				clientkv.SetPresumeKeyNotExists)
		default:
			err = txn.Set(write.Key, write.Value)
		}
		if err != nil {
			return err
		}
	}
	var locks [][]byte
	for i := range b.Conds {
		if key := b.Conds[i].Key; !written[string(key)] {
			locks = append(locks, key)
		}
	}
	if len(locks) == 0 {
		return nil
	}
	return txn.LockKeys(ctx, clientkv.NewLockCtx(txn.StartTS(), clientkv.LockNoWait, s.Now()),
		locks...)
}

// outcome gives the error of a commit its class. Sent reports whether a request has been sent that
// may have decided the commit by itself.
func (s *Store) outcome(ctx context.Context, err error, sent bool) error {
	var exists *tikverr.ErrKeyExist
	decided := class(err)
	switch {
	case err == nil:
		return nil
	case tikverr.IsErrorUndetermined(err):
	case errors.As(err, &exists):
		return errPresumption
	case decided != nil:
		return fmt.Errorf("tikv: commit: %w", decided)
	case !sent || ctx.Err() == nil: // the client knows
		return s.failure(ctx, "commit", err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnknown, s.failure(ctx, "commit", err))
}
