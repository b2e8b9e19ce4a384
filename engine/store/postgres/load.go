package postgres

import (
	"context"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/kstonedb/kstone/engine/store"
)

// Load stores items, fast and not as one: in transactions of loadItems items, which COPY brings
// to the server. Items that are there are replaced. It returns how many have been stored for
// certain. Versions are new ones.
func (s *Store) Load(ctx context.Context, items iter.Seq2[store.Item, error]) (n int64, err error) {
	var chunk []store.Item
	bytes, load := 0, s.copyNew
	flush := func() error {
		if len(chunk) == 0 {
			return nil
		}
		err := s.retry(ctx, func(ctx context.Context) error { return load(ctx, chunk) })
		if code(err) == "23505" { // some items are there, so others will be, too
			load = s.copyOver
			err = s.retry(ctx, func(ctx context.Context) error { return load(ctx, chunk) })
		}
		if err == nil {
			n += int64(len(chunk))
			chunk, bytes = chunk[:0], 0
		}
		return err
	}
	for it, err := range items {
		if err == nil {
			w := store.WriteSet{Ops: []store.Op{{Key: it.Key, Value: it.Value, Expiry: it.Expiry}}}
			err = s.validate(&w)
		}
		if err != nil {
			return n, err
		}
		it.Value = append([]byte{}, it.Value...) // not nil, which COPY takes for NULL
		it.Key = store.Item{Key: it.Key}.Clone().Key
		chunk = append(chunk, it)
		if bytes += len(it.Key.PK) + len(it.Key.SK) + len(it.Value); len(chunk) == loadItems ||
			bytes >= loadBytes {
			if err := flush(); err != nil {
				return n, err
			}
		}
	}
	return n, flush()
}

// A transaction of Load.
const (
	loadItems = 50_000
	loadBytes = 32 << 20
)

// copyNew stores a chunk of items that are not there. The error of one that is has the code 23505.
func (s *Store) copyNew(ctx context.Context, chunk []store.Item) error {
	return s.inTx(ctx, func(c *pgx.Conn) error {
		var version int64
		if err := c.QueryRow(ctx, s.sql.version).Scan(&version); err != nil {
			return err
		}
		rows := pgx.CopyFromSlice(len(chunk), func(i int) ([]any, error) {
			it := &chunk[i]
			return []any{s.Layout.AppendKey(nil, it.Key), it.Value, version,
				nullable(it.Expiry)}, nil
		})
		_, err := c.CopyFrom(ctx, s.table, []string{"k", "v", "version", "expiry"}, rows)
		return err
	})
}

// copyOver stores a chunk of any items, by way of a temporary table.
func (s *Store) copyOver(ctx context.Context, chunk []store.Item) error {
	return s.inTx(ctx, func(c *pgx.Conn) error {
		if _, err := c.Exec(ctx, s.sql.stage); err != nil {
			return err
		}
		rows := pgx.CopyFromSlice(len(chunk), func(i int) ([]any, error) {
			it := &chunk[i]
			return []any{int64(i), s.Layout.AppendKey(nil, it.Key), it.Value,
				nullable(it.Expiry)}, nil
		})
		_, err := c.CopyFrom(ctx, pgx.Identifier{"kstone_load"},
			[]string{"n", "k", "v", "expiry"}, rows)
		if err == nil {
			_, err = c.Exec(ctx, s.sql.load)
		}
		return err
	})
}

// inTx runs fn in a transaction. Why not pgx.BeginTxFunc: its error does not say whether COMMIT was
// sent.
func (s *Store) inTx(ctx context.Context, fn func(*pgx.Conn) error) error {
	c, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer release(c)
	if _, err = c.Exec(ctx, beginTx); err == nil {
		err = fn(c.Conn())
	}
	if err != nil {
		return failure(ctx, "load", err)
	}
	b := &pgx.Batch{}
	b.Queue("COMMIT")
	return commitTx(ctx, c, b, true)
}

func nullable(expiry int64) any {
	if expiry == 0 {
		return nil
	}
	return expiry
}
