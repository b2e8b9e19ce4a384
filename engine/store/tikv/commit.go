package tikv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	tikverr "github.com/tikv/client-go/v2/error"
	clientkv "github.com/tikv/client-go/v2/kv"
	client "github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/txnkv/transaction"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
)

// maxAttempts bounds how often Commit tries a write set that conflicts with others; between two
// attempts it waits up to firstWait, then twice as long.
const (
	maxAttempts = 8
	firstWait   = 2 * time.Millisecond
)

// Commit implements store.Writer.
func (s *Store) Commit(ctx context.Context, w *store.WriteSet) error {
	if err := cmp.Or(store.CheckContext(ctx), w.Validate(limits), s.check()); err != nil {
		return err
	}
	return s.commit(ctx, w, s.Layout.NewBatch(w))
}

func (s *Store) commit(ctx context.Context, w *store.WriteSet, b *remote.Batch) error {
	if len(b.Writes)+len(b.Conds) == 0 {
		return nil
	}
	ctx, cancel := remote.Within(ctx, s.o.timeout())
	defer cancel()
	presume, wait := true, firstWait
	for attempt := 1; ; attempt++ {
		err := s.try(ctx, w, b, presume)
		switch {
		case errors.Is(err, errPresumption):
			// The condition may hold all the same: what is there has expired, or another condition
			// fails before. So all of them are read.
			presume = false
			continue
		case !errors.Is(err, store.ErrConflict) || attempt == maxAttempts:
			return err
		}
		select {
		case <-time.After(rand.N(wait)):
		case <-ctx.Done():
			return err
		}
		wait *= 2
	}
}

// errPresumption: a key that was presumed absent is there, or may be. Nothing was written.
var errPresumption = errors.New("tikv: a key is not absent")

// try commits the batch once.
func (s *Store) try(ctx context.Context, w *store.WriteSet, b *remote.Batch, presume bool) error {
	ts, err := s.timestamp(ctx)
	if err != nil {
		return err
	}
	presumed, err := s.checkConditions(ctx, w, b, ts, presume)
	if err != nil || len(b.Writes) == 0 { // all at one moment, which is enough
		return err
	}
	txn, err := s.kv.Begin(client.WithStartTS(ts))
	if err != nil {
		return s.failure(ctx, "commit", err)
	}
	txn.SetEnableAsyncCommit(!s.o.NoAsyncCommit)
	txn.SetEnable1PC(!s.o.NoOnePhase)
	txn.SetCausalConsistency(true) // see the package's comment
	if err := s.add(ctx, txn, b, presumed); err != nil {
		return cmp.Or(s.failure(ctx, "commit", err), txn.Rollback())
	}
	sent := new(atomic.Bool)
	err = txn.Commit(context.WithValue(ctx, sentKey{}, sent))
	return s.outcome(ctx, err, sent.Load())
}

// checkConditions reads what the conditions are about. It leaves out keys that are presumed to be
// absent, which are returned.
func (s *Store) checkConditions(
	ctx context.Context, w *store.WriteSet, b *remote.Batch, ts uint64, presume bool,
) (presumed map[string]bool, err error) {
	read := remote.Batch{Conds: b.Conds}
	if presume {
		presumed = presumedAbsent(b)
		read.Conds = slices.DeleteFunc(slices.Clone(b.Conds), func(c remote.Cond) bool {
			return c.Kind == store.CondAbsent && presumed[string(c.Key)]
		})
	}
	if len(read.Conds) == 0 {
		return presumed, nil
	}
	pairs, err := (&view{s, ts}).Get(ctx, read.CondKeys())
	if err == nil {
		err = read.Check(w, pairs, s.Now())
	}
	if errors.Is(err, store.ErrConditionFailed) && len(read.Conds) < len(b.Conds) {
		return nil, errPresumption
	}
	return presumed, err
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
