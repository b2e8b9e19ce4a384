package postgres

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
)

// DefaultTimeout ends calls whose context has no deadline.
const DefaultTimeout = remote.DefaultTimeout

// defaultConns is pool_max_conns without the parameter.
const defaultConns = 16

// options are what a URL says.
type options struct {
	table   pgx.Identifier
	timeout time.Duration
	pool    *pgxpool.Config
}

func parseURL(s string) (*options, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, invalid("the URL is not postgres://USER:PASSWORD@HOST:PORT/DATABASE?OPTIONS")
	}
	o := &options{table: pgx.Identifier{"kstone"}, timeout: DefaultTimeout}
	query := u.Query()
	if t := query.Get("table"); t != "" {
		o.table = strings.Split(t, ".")
	}
	if len(o.table) > 2 || slices.Contains(o.table, "") {
		return nil, invalid("table=%s is neither NAME nor SCHEMA.NAME", query.Get("table"))
	}
	if t := query.Get("timeout"); t != "" {
		if o.timeout, err = time.ParseDuration(t); err != nil || o.timeout <= 0 {
			return nil, invalid("timeout=%s is not a duration above 0, such as 20s", t)
		}
	}
	query.Del("table")
	query.Del("timeout")
	u.RawQuery = query.Encode()
	if o.pool, err = pgxpool.ParseConfig(u.String()); err != nil {
		return nil, invalid("%v", err)
	}
	if !query.Has("pool_max_conns") {
		o.pool.MaxConns = defaultConns
	}
	return o, nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: postgres: %s", store.ErrInvalid, fmt.Sprintf(format, args...))
}
