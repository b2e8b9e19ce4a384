package driver

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"sync"

	engine "github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
)

func init() { sql.Register("kstone", Driver{}) }

// Driver is the driver that is registered as kstone.
type Driver struct{}

var _ driver.DriverContext = Driver{}

// Open implements driver.Driver.
func (d Driver) Open(name string) (driver.Conn, error) {
	c, err := d.OpenConnector(name)
	if err != nil {
		return nil, err
	}
	defer c.(io.Closer).Close() // the connection has a reference of its own
	return c.Connect(context.Background())
}

// OpenConnector implements driver.DriverContext. The database is opened with the first
// connection.
func (Driver) OpenConnector(name string) (driver.Connector, error) {
	s, err := parse(name)
	if err != nil {
		return nil, err
	}
	return &connector{source: s}, nil
}

// NewConnector returns a connector, for sql.OpenDB, to a database that the program has open and
// closes after the sql.DB.
func NewConnector(db *table.DB) driver.Connector {
	return &connector{handle: &handle{db: db}}
}

// connector makes the connections of one sql.DB.
type connector struct {
	source *source // nil of a database that is the program's

	mu     sync.Mutex
	handle *handle // nil before the first connection. Guarded by mu
	closed bool    // Guarded by mu
}

// Driver implements driver.Connector.
func (c *connector) Driver() driver.Driver { return Driver{} }

// Connect implements driver.Connector.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{handle: h, session: engine.Open(h.db)}, nil
}

// open returns the handle with one more reference. Nothing waits for another Connect that opens the
// database longer than its context lasts.
func (c *connector) open(ctx context.Context) (*handle, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && c.handle != nil {
		return c.handle.hold(), nil
	}
	if !c.closed {
		c.mu.Unlock()
		h, err := c.source.open(ctx)
		c.mu.Lock()
		if err != nil {
			return nil, err
		}
		if c.handle == nil && !c.closed {
			c.handle = h.hold()
		}
		defer h.release()
	}
	if c.closed {
		return nil, errors.New("kstone: the sql.DB is closed")
	}
	return c.handle.hold(), nil
}

// Close implements io.Closer: sql.DB.Close calls it.
func (c *connector) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.handle == nil {
		c.closed = true
		return nil
	}
	c.closed = true
	return c.handle.release()
}
