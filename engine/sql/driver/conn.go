package driver

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	engine "github.com/kstonedb/kstone/engine/sql"
)

// conn is a connection: a session. It belongs to one goroutine at a time.
type conn struct {
	handle  *handle // nil when closed
	session *engine.Session
}

var _ interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.SessionResetter
	driver.Validator
} = (*conn)(nil)

// Close implements driver.Conn.
func (c *conn) Close() error {
	if c.handle == nil {
		return nil
	}
	c.session.Rollback()
	h := c.handle
	c.handle = nil
	return h.release()
}

// usable returns the error of a connection that is closed, or of a context that has ended.
func (c *conn) usable(ctx context.Context) error {
	if c.handle == nil {
		return driver.ErrBadConn
	}
	return ctx.Err()
}

// Ping implements driver.Pinger.
func (c *conn) Ping(ctx context.Context) error {
	if err := c.usable(ctx); err != nil {
		return err
	}
	s, err := c.handle.db.Snapshot(ctx)
	if err != nil {
		return err
	}
	return s.Close()
}

// ResetSession implements driver.SessionResetter.
func (c *conn) ResetSession(ctx context.Context) error { return c.usable(ctx) }

// IsValid implements driver.Validator. The pool calls it when it gets the connection back: what
// BEGIN has begun and nothing has ended is rolled back then.
func (c *conn) IsValid() bool {
	c.session.Rollback()
	return c.handle != nil
}

// CheckNamedValue implements driver.NamedValueChecker.
func (c *conn) CheckNamedValue(v *driver.NamedValue) (err error) {
	v.Value, err = argument(v.Value)
	return err
}

// Prepare implements driver.Conn.
func (c *conn) Prepare(text string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), text)
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *conn) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	if err := c.usable(ctx); err != nil {
		return nil, err
	}
	stmt, err := c.session.Prepare(text)
	if err == nil {
		return &statements{conn: c, parts: []*engine.Stmt{stmt}}, nil
	}
	if !errors.Is(err, engine.ErrSyntax) {
		return nil, err
	}
	parts, failed := c.session.PrepareParts(text)
	if failed != nil || len(parts) == 1 {
		return nil, err
	}
	return &statements{conn: c, parts: parts}, nil
}

// ExecContext implements driver.ExecerContext.
func (c *conn) ExecContext(ctx context.Context, text string, args []driver.NamedValue,
) (driver.Result, error) {
	s, err := c.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return s.(*statements).ExecContext(ctx, args)
}

// QueryContext implements driver.QueryerContext.
func (c *conn) QueryContext(ctx context.Context, text string, args []driver.NamedValue,
) (driver.Rows, error) {
	s, err := c.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	return s.(*statements).QueryContext(ctx, args)
}

// Begin implements driver.Conn.
func (c *conn) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// BeginTx implements driver.ConnBeginTx.
func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if err := c.usable(ctx); err != nil {
		return nil, err
	}
	if level := sql.IsolationLevel(o.Isolation); level < sql.LevelDefault ||
		level > sql.LevelLinearizable {
		return nil, fmt.Errorf("kstone: there is no isolation level %d", o.Isolation)
	}
	text := "BEGIN"
	if o.ReadOnly {
		text = "BEGIN READ ONLY"
	}
	if _, err := c.session.Exec(ctx, text); err != nil {
		return nil, err
	}
	return tx{c}, nil
}

// tx is the transaction of a connection.
type tx struct{ conn *conn }

// Commit implements driver.Tx.
func (t tx) Commit() error {
	if err := t.conn.usable(context.Background()); err != nil {
		return err
	}
	_, err := t.conn.session.Exec(context.Background(), "COMMIT")
	return err
}

// Rollback implements driver.Tx.
func (t tx) Rollback() error {
	t.conn.session.Rollback()
	return nil
}
