package tables

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	_ "modernc.org/sqlite" // the driver "sqlite", in Go
)

const sqliteTuning = "WAL, `synchronous` NORMAL where commits need only survive the end of " +
	"the process and FULL where a power cut, 256 MiB of page cache a connection, 1 GiB of mmap, " +
	"temporary tables in memory, ANALYZE after loading. The integer primary key is the rowid. " +
	"A connection and prepared statements for each goroutine; the covering index is over " +
	"(at, amount)."

type sqliteStore struct {
	db     *sql.DB
	sync   bool
	writer *sql.Conn
	put    *sql.Stmt
	used   []io.Closer // connections and statements
}

// opener returns the function that opens databases with a driver.
func opener(driver string) func(context.Context, settings) (store, error) {
	return func(ctx context.Context, s settings) (store, error) {
		db, err := sql.Open(driver, filepath.Join(s.dir, "table.db"))
		if err != nil {
			return nil, err
		}
		q := &sqliteStore{db: db, sync: s.sync}
		if err := q.create(ctx, s.indexes); err != nil {
			return nil, errors.Join(err, q.close())
		}
		return q, nil
	}
}

const sqliteTable = `CREATE TABLE orders (id INTEGER PRIMARY KEY, code TEXT NOT NULL,
	at INTEGER NOT NULL, seq INTEGER NOT NULL, customer INTEGER NOT NULL,
	amount INTEGER NOT NULL, status TEXT NOT NULL, note TEXT NOT NULL)`

var sqliteIndexes = []string{
	`CREATE INDEX by_at ON orders (at, amount)`,
	`CREATE UNIQUE INDEX by_code ON orders (code)`,
	`CREATE INDEX by_seq ON orders (seq)`,
}

func (s *sqliteStore) create(ctx context.Context, indexes int) (err error) {
	if s.writer, err = s.connect(ctx); err != nil {
		return err
	}
	for _, stmt := range append([]string{sqliteTable}, sqliteIndexes[:indexes]...) {
		if _, err := s.writer.ExecContext(ctx, stmt); err != nil {
			return err
		}
	}
	s.put, err = s.prepare(ctx, s.writer, `INSERT INTO orders VALUES (?,?,?,?,?,?,?,?)`)
	return err
}

func (s *sqliteStore) prepare(ctx context.Context, c *sql.Conn, text string) (*sql.Stmt, error) {
	p, err := c.PrepareContext(ctx, text)
	if err == nil {
		s.used = append(s.used, p)
	}
	return p, err
}

// connect returns a connection with all settings.
func (s *sqliteStore) connect(ctx context.Context) (*sql.Conn, error) {
	c, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	s.used = append(s.used, c)
	synchronous := "NORMAL"
	if s.sync {
		synchronous = "FULL"
	}
	for _, pragma := range []string{
		"busy_timeout = 10000", "journal_mode = WAL", "synchronous = " + synchronous,
		fmt.Sprintf("cache_size = -%d", cacheBytes>>10), "mmap_size = 1073741824",
		"temp_store = MEMORY",
	} {
		if _, err := c.ExecContext(ctx, "PRAGMA "+pragma); err != nil {
			return nil, fmt.Errorf("%s: %w", pragma, err)
		}
	}
	return c, nil
}

func (s *sqliteStore) insert(ctx context.Context, rows []Row) error {
	if len(rows) == 1 {
		return s.insertRow(ctx, &rows[0])
	}
	if _, err := s.writer.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	for i := range rows {
		if err := s.insertRow(ctx, &rows[i]); err != nil {
			_, rollback := s.writer.ExecContext(ctx, "ROLLBACK")
			return errors.Join(err, rollback)
		}
	}
	_, err := s.writer.ExecContext(ctx, "COMMIT")
	return err
}

func (s *sqliteStore) insertRow(ctx context.Context, r *Row) error {
	_, err := s.put.ExecContext(ctx, r.ID, r.Code, r.At, r.Seq, r.Customer, r.Amount, r.Status,
		r.Note)
	return err
}

func (s *sqliteStore) settle(ctx context.Context) error {
	for _, stmt := range []string{"ANALYZE", "PRAGMA wal_checkpoint(TRUNCATE)"} {
		if _, err := s.writer.ExecContext(ctx, stmt); err != nil {
			return err
		}
	}
	return nil
}

func (s *sqliteStore) close() (err error) {
	for _, c := range slices.Backward(s.used) {
		err = errors.Join(err, c.Close())
	}
	return errors.Join(err, s.db.Close())
}

// sqliteSession has a connection of its own.
type sqliteSession struct {
	conn                               *sql.Conn
	byID, byCode, byAt, covered, bySeq *sql.Stmt
}

const (
	sqliteSelect = `SELECT id, code, at, seq, customer, amount, status, note FROM orders `
	sqliteByID   = sqliteSelect + `WHERE id = ?`
)

func (s *sqliteStore) session(ctx context.Context) (session, error) {
	c, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	q := &sqliteSession{conn: c}
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&q.byID, sqliteByID},
		{&q.byCode, sqliteSelect + `WHERE code = ?`},
		{&q.byAt, sqliteSelect + `WHERE at >= ? AND at < ? ORDER BY at`},
		{&q.covered, `SELECT at, amount FROM orders WHERE at >= ? AND at < ? ORDER BY at`},
		{&q.bySeq, sqliteSelect + `WHERE seq >= ? ORDER BY seq LIMIT ?`},
	} {
		if *p.stmt, err = s.prepare(ctx, c, p.text); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// fields returns where the columns go.
func (r *Row) fields() []any {
	return []any{&r.ID, &r.Code, &r.At, &r.Seq, &r.Customer, &r.Amount, &r.Status, &r.Note}
}

func (q *sqliteSession) get(ctx context.Context, id int64, r *Row) error {
	return q.byID.QueryRowContext(ctx, id).Scan(r.fields()...)
}

func (q *sqliteSession) getOnce(ctx context.Context, id int64, r *Row) error {
	return q.conn.QueryRowContext(ctx, sqliteByID, id).Scan(r.fields()...)
}

func (q *sqliteSession) getCode(ctx context.Context, code string, r *Row) error {
	return q.byCode.QueryRowContext(ctx, code).Scan(r.fields()...)
}

func (q *sqliteSession) rangeAt(ctx context.Context, dst []Row, lo, hi int64) ([]Row, error) {
	return sqliteRows(ctx, q.byAt, dst, (*Row).fields, lo, hi)
}

func (q *sqliteSession) rangeCovered(ctx context.Context, dst []pair,
	lo, hi int64) ([]pair, error) {
	return sqliteRows(ctx, q.covered, dst,
		func(p *pair) []any { return []any{&p.At, &p.Amount} }, lo, hi)
}

func (q *sqliteSession) firstBySeq(ctx context.Context, dst []Row, from int64,
	limit int) ([]Row, error) {
	return sqliteRows(ctx, q.bySeq, dst, (*Row).fields, from, limit)
}

func sqliteRows[T any](ctx context.Context, stmt *sql.Stmt, dst []T, fields func(*T) []any,
	args ...any) (_ []T, err error) {
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return dst, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var v T
		dst = append(dst, v)
		if err := rows.Scan(fields(&dst[len(dst)-1])...); err != nil {
			return dst, err
		}
	}
	return dst, rows.Err()
}
