package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
)

// maxAttempts bounds how often a transaction is tried that conflicts with others.
const maxAttempts = 12

// Commit implements store.Writer.
func (s *Store) Commit(ctx context.Context, w *store.WriteSet) error {
	if err := cmp.Or(s.CheckCall(ctx), s.validate(w)); err != nil {
		return err
	}
	if w.Len() == 0 {
		return nil
	}
	return s.commit(ctx, w, s.Layout.NewBatch(w))
}

// validate checks a write set, and that its keys fit the index.
func (s *Store) validate(w *store.WriteSet) error {
	if err := w.Validate(limits); err != nil {
		return err
	}
	var scratch []byte
	for i := range w.Ops {
		scratch = s.Layout.AppendKey(scratch[:0], w.Ops[i].Key)
		if len(scratch) > maxEncodedKey {
			return fmt.Errorf("%w: postgres: key of %d bytes, encoded, limit is %d",
				store.ErrTooLarge, len(scratch), maxEncodedKey)
		}
	}
	return nil
}

func (s *Store) commit(ctx context.Context, w *store.WriteSet, b *remote.Batch) error {
	args, err := s.args(b)
	if err != nil {
		return err
	}
	return s.retry(ctx, func(ctx context.Context) error {
		var failed *store.ConditionError
		err := s.serializable(ctx, func(b *pgx.Batch) { b.Queue(s.sql.commit, args...) },
			func(r pgx.BatchResults) (err error) {
				failed, err = failedCondition(w, r)
				return err
			})
		if err == nil && failed != nil {
			return failed
		}
		return err
	})
}

// args are those of commitStatement. Writes are in the order of their keys. Why: two transactions
// then wait for each other less often in a circle.
func (s *Store) args(b *remote.Batch) ([]any, error) {
	n := len(b.Conds)
	ops, kinds, versions := make([]int32, n), make([]int32, n), make([]int64, n)
	keys, wants := make([][]byte, n), make([][]byte, n)
	for i := range b.Conds {
		c := &b.Conds[i]
		ops[i], kinds[i], versions[i] = int32(c.Op), int32(c.Kind), int64(c.Version)
		keys[i], wants[i] = c.Key, append([]byte{}, c.Value...)
	}
	puts, values, gone := [][]byte{}, [][]byte{}, [][]byte{}
	expiries := []int64{}
	writes := slices.Clone(b.Writes)
	slices.SortFunc(writes, func(a, b remote.Write) int { return bytes.Compare(a.Key, b.Key) })
	for _, w := range writes {
		if w.Value == nil {
			gone = append(gone, w.Key)
			continue
		}
		value, expiry, err := remote.DecodeValue(w.Value)
		if err != nil {
			return nil, err
		}
		puts, values = append(puts, w.Key), append(values, value)
		expiries = append(expiries, expiry)
	}
	return []any{ops, keys, kinds, wants, versions, s.Now().UnixMilli(), puts, values, expiries,
		gone}, nil
}

// failedCondition reads the answer to commitStatement.
func failedCondition(w *store.WriteSet, r pgx.BatchResults) (*store.ConditionError, error) {
	var op int
	var there bool
	var version int64
	err := r.QueryRow().Scan(&op, &there, &version)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	key := store.Item{Key: w.Ops[op].Key}.Clone().Key
	return &store.ConditionError{Key: key, Op: op, Exists: there, Version: uint64(version)}, nil
}

// serializable sends a transaction of one statement, in one round trip. Nil read takes no rows.
func (s *Store) serializable(
	ctx context.Context, queue func(*pgx.Batch), read func(pgx.BatchResults) error,
) error {
	c, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer release(c)
	b := &pgx.Batch{}
	b.Queue(beginTx)
	queue(b)
	b.Queue("COMMIT")
	end := store.BeginRequest(ctx)
	results := c.SendBatch(ctx, b)
	if _, err = results.Exec(); err == nil {
		if read != nil {
			err = read(results)
		} else {
			_, err = results.Exec()
		}
	}
	if err == nil {
		_, err = results.Exec()
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	end()
	return outcome(ctx, "commit", err, true)
}

// retry runs a transaction again after conflicts, which have written nothing.
func (s *Store) retry(ctx context.Context, run func(context.Context) error) error {
	if err := store.CheckContext(ctx); err != nil {
		return err
	}
	ctx, cancel := s.Within(ctx)
	defer cancel()
	return remote.Retry(ctx, maxAttempts, func() error { return run(ctx) })
}

// outcome gives the error of a transaction whose COMMIT may have been sent its class. An error of
// the server that leaves the connection open has rolled it back; without such an answer nothing is
// known.
func outcome(ctx context.Context, doing string, err error, sent bool) error {
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrClosed), !sent, pgconn.SafeToRetry(err):
	case errors.As(err, &refused) && isError(refused):
	default:
		return fmt.Errorf("%w: %w", store.ErrUnknown, failure(ctx, doing, err))
	}
	return failure(ctx, doing, err)
}

// isError reports whether the connection is open after an error of the server. Why not Severity: a
// server writes that in its own language, and the other from version 9.6 on.
func isError(e *pgconn.PgError) bool {
	return cmp.Or(e.SeverityUnlocalized, e.Severity) == "ERROR"
}

// failure gives an error its class, and says what was being done.
func failure(ctx context.Context, doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrStale):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("postgres: %s: %w: %v", doing, context.Cause(ctx), firstLine(err))
	}
	class := map[string]error{
		"40001": store.ErrConflict, "40P01": store.ErrConflict, // serialisation, deadlock
		"25006": store.ErrReadOnly, "54000": store.ErrTooLarge,
		"25P03": store.ErrStale, "57P05": store.ErrStale, "72000": store.ErrStale, // timeouts
	}[code(err)]
	if class != nil {
		return fmt.Errorf("postgres: %s: %w: %w", doing, class, err)
	}
	return fmt.Errorf("postgres: %s: %w", doing, err)
}

// code returns the SQLSTATE of an error of the server, "" if it is not one of the server.
func code(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}
