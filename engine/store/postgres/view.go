package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
)

// view reads as of one moment: of one statement by itself, or of a transaction that begins with the
// first page.
type view struct {
	s *Store
	// begin is the statement that begins the transaction, "" if Get may do without.
	begin string

	mu    sync.Mutex
	conn  *pgxpool.Conn // of the transaction, nil before it has begun
	ended error         // why it cannot be read any more
	// ahead are statements that the next request begins with, until they have been carried out:
	// nothing of a request is if a statement of it cannot be prepared.
	ahead []string
}

const beginSnapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

// view returns a view of the present.
func (s *Store) view(context.Context, bool) (remote.View, func(), error) {
	v := &view{s: s}
	return v, v.end, s.Check()
}

// end ends the transaction, without waiting for it.
func (v *view) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.conn != nil {
		c := v.conn
		v.conn = nil
		go rollback(c)
	}
	if v.ended == nil {
		v.ended = fmt.Errorf("postgres: %w", store.ErrClosed)
	}
}

// rollbackWait bounds how long the end of a transaction takes before its connection is given up.
const rollbackWait = 5 * time.Second

// rollback ends the transaction of a connection and returns it to the pool. One that is broken is
// closed.
func rollback(c *pgxpool.Conn) {
	if !c.Conn().IsClosed() && c.Conn().PgConn().TxStatus() != 'I' {
		ctx, cancel := context.WithTimeout(context.Background(), rollbackWait)
		defer cancel()
		c.Exec(ctx, "ROLLBACK") // of a connection that is broken: Release closes it
	}
	c.Release()
}

// release returns a connection whose last transaction may have failed.
func release(c *pgxpool.Conn) {
	if c.Conn().IsClosed() || c.Conn().PgConn().TxStatus() == 'I' {
		c.Release()
		return
	}
	rollback(c)
}

// send sends a batch in one round trip, on the connection of the transaction, which it begins if it
// has not, and reads the answers.
func (v *view) send(ctx context.Context, b *pgx.Batch, read func(pgx.BatchResults) error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ended != nil {
		return v.ended
	}
	if v.conn == nil {
		c, err := v.s.acquire(ctx)
		if err != nil {
			return err
		}
		v.conn, v.ahead = c, append([]string{cmp.Or(v.begin, beginSnapshot)}, v.ahead...)
	}
	if err := v.revive(ctx); err != nil {
		return err
	}
	all := v.prefixed()
	all.QueuedQueries = append(all.QueuedQueries, b.QueuedQueries...)
	defer store.BeginRequest(ctx)()
	results := v.conn.SendBatch(ctx, all)
	var err error
	for err == nil && len(v.ahead) > 0 {
		if _, err = results.Exec(); err == nil {
			v.ahead = v.ahead[1:]
		}
	}
	if err == nil {
		err = read(results)
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	return err
}

// revive takes a transaction back to a savepoint that a statement of it has failed after. Why: the
// server prepares nothing before. Requires: mu is held, and conn is there.
func (v *view) revive(ctx context.Context) error {
	if v.conn.Conn().PgConn().TxStatus() != 'E' {
		return nil
	}
	for ; len(v.ahead) > 0; v.ahead = v.ahead[1:] {
		if _, err := v.conn.Exec(ctx, v.ahead[0]); err != nil {
			return err
		}
	}
	return nil
}

// first adds a statement to what the next request begins with.
func (v *view) first(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ahead = append(v.ahead, fmt.Sprintf(format, args...))
}

// prefixed returns a batch of what is to be sent first, and then some more. Requires: mu is held.
func (v *view) prefixed(more ...string) *pgx.Batch {
	b := &pgx.Batch{}
	for _, text := range append(v.ahead, more...) {
		b.Queue(text)
	}
	return b
}

// Get implements remote.View.
func (v *view) Get(ctx context.Context, keys [][]byte) ([]remote.Pair, error) {
	ctx, cancel := v.s.Within(ctx)
	defer cancel()
	found := make([]remote.Pair, 0, len(keys))
	take := func(rows pgx.Rows, err error) error {
		if err == nil {
			found, err = pairsOf(found, rows)
		}
		return err
	}
	var err error
	if v.begin == "" {
		var c *pgxpool.Conn
		if c, err = v.s.acquire(ctx); err == nil {
			done := store.BeginRequest(ctx)
			err = take(c.Query(ctx, v.s.sql.get, keys))
			done()
			c.Release()
		}
	} else {
		b := &pgx.Batch{}
		b.Queue(v.s.sql.get, keys)
		err = v.send(ctx, b, func(r pgx.BatchResults) error { return take(r.Query()) })
	}
	if err != nil {
		return nil, v.failure(ctx, "reading keys", err)
	}
	if len(keys) == 1 && len(found) == 1 {
		return found, nil
	}
	at := make(map[string]int, len(found))
	for i := range found {
		at[string(found[i].Key)] = i
	}
	out := make([]remote.Pair, len(keys))
	for i, key := range keys {
		out[i].Key = key
		if j, ok := at[string(key)]; ok {
			out[i] = found[j]
		}
	}
	return out, nil
}

// Pages implements remote.View.
func (v *view) Pages(ctx context.Context, spans []remote.Span) ([]remote.Page, error) {
	ctx, cancel := v.s.Within(ctx)
	defer cancel()
	b := &pgx.Batch{}
	for i := range spans {
		text := v.s.sql.up
		if spans[i].Reverse {
			text = v.s.sql.down
		}
		b.Queue(text, spans[i].Start, spans[i].End, spans[i].Limit)
	}
	pages := make([]remote.Page, len(spans))
	err := v.send(ctx, b, func(r pgx.BatchResults) error {
		for i := range pages {
			rows, err := r.Query()
			if err == nil {
				pages[i].Pairs, err = pairsOf(nil, rows)
			}
			if err != nil {
				return err
			}
			pages[i].More = len(pages[i].Pairs) == spans[i].Limit
		}
		return nil
	})
	if err != nil {
		return nil, v.failure(ctx, "reading pages", err)
	}
	return pages, nil
}

// count counts what is in ranges and has not expired, of each not more than most.
func (v *view) count(ctx context.Context, spans []remote.Span, most int64) (n int64, err error) {
	ctx, cancel := v.s.Within(ctx)
	defer cancel()
	b := &pgx.Batch{}
	now := v.s.Now().UnixMilli()
	for i := range spans {
		b.Queue(v.s.sql.count, spans[i].Start, spans[i].End, now, most)
	}
	err = v.send(ctx, b, func(r pgx.BatchResults) error {
		for range spans {
			var c int64
			if err := r.QueryRow().Scan(&c); err != nil {
				return err
			}
			n += c
		}
		return nil
	})
	return n, v.failure(ctx, "counting", err)
}

// failure is that of a read. A transaction that the server has ended cannot be read again.
func (v *view) failure(ctx context.Context, doing string, err error) error {
	err = failure(ctx, doing, err)
	v.mu.Lock()
	defer v.mu.Unlock()
	if err != nil && v.begin != "" && v.conn != nil && v.conn.Conn().IsClosed() && v.ended == nil {
		if v.begin == beginSnapshot {
			err = fmt.Errorf("%w: its connection is closed: %w", store.ErrStale, err)
		}
		v.ended = err
	}
	return err
}

// slabBytes is how much memory pairs are put into at a time.
const slabBytes = 32 << 10

// pairsOf appends the pairs of rows. It copies them, several into one piece of memory.
func pairsOf(out []remote.Pair, rows pgx.Rows) ([]remote.Pair, error) {
	defer rows.Close()
	var slab []byte
	for rows.Next() {
		c := rows.RawValues() // bytea and bigint, binary
		k, v := c[0], c[1]
		var expiry int64
		if len(c[3]) == 8 {
			expiry = int64(binary.BigEndian.Uint64(c[3]))
		}
		const most = 16 // of an encoded value beside the value
		if need := len(k) + len(v) + most; cap(slab)-len(slab) < need {
			slab = make([]byte, 0, max(need, slabBytes))
		}
		from := len(slab)
		slab = append(slab, k...)
		to := len(slab)
		slab = remote.AppendValue(slab, v, expiry)
		out = append(out, remote.Pair{
			Key: slab[from:to:to], Value: slab[to:len(slab):len(slab)],
			Version: binary.BigEndian.Uint64(c[2]),
		})
	}
	return out, rows.Err()
}

// snapshot is a transaction that is held open.
type snapshot struct {
	remote.Reader
	view *view
}

// Snapshot implements store.Store.
func (s *Store) Snapshot(ctx context.Context) (store.Snapshot, error) {
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	v := &view{s: s, begin: beginSnapshot}
	b := &pgx.Batch{}
	b.Queue("SELECT 1") // the server takes the snapshot for the first statement
	ctx, cancel := s.Within(ctx)
	defer cancel()
	err := v.send(ctx, b, func(r pgx.BatchResults) error {
		_, err := r.Exec()
		return err
	})
	if err != nil {
		v.end()
		return nil, failure(ctx, "taking a snapshot", err)
	}
	return &snapshot{v.reader(), v}, nil
}

// SnapshotLater implements store.LateSnapshots.
func (s *Store) SnapshotLater(
	ctx context.Context, _ bool, fixed func() error,
) (store.Snapshot, error) {
	if err := s.CheckCall(ctx); err != nil {
		return nil, err
	}
	v := &view{s: s, begin: beginSnapshot}
	return &snapshot{remote.Late(v.reader(), v, fixed), v}, nil
}

// reader returns a reader of the view.
func (v *view) reader() remote.Reader {
	r := v.s.Reader
	r.View = func(context.Context, bool) (remote.View, func(), error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v, func() {}, v.ended
	}
	return r
}

// Count implements store.Counter.
func (s *snapshot) Count(ctx context.Context, rg store.Range) (int64, error) {
	return count(ctx, &s.Reader, rg)
}

// Close implements store.Snapshot.
func (s *snapshot) Close() error {
	s.view.end()
	return nil
}
