package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
)

func init() {
	remote.Register("postgres", Open)
	remote.Register("postgresql", Open)
}

// Open opens the store of a URL: see the package's comment. It creates the table if there is none.
// It fails with the error of ctx, or after the timeout of the URL, if the server does not answer.
func Open(ctx context.Context, url string) (*Store, error) {
	o, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	if err := store.CheckContext(ctx); err != nil {
		return nil, err
	}
	o.pool.AfterConnect = settle
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), o.pool)
	if err != nil {
		return nil, invalid("%v", err)
	}
	s := &Store{pool: pool, table: o.table, sql: statementsOf(o.table)}
	s.Core = remote.Core{Kind: "postgres", Timeout: o.timeout, Most: limits,
		Reader: remote.Reader{Layout: remote.NewLayout("", false), Now: time.Now, View: s.view,
			Ahead: remote.AheadAwaited},
		Apply: func(ctx context.Context, writes []remote.Write) error {
			return s.commit(ctx, nil, &remote.Batch{Writes: writes})
		},
	}
	ctx, cancel := s.Within(ctx)
	defer cancel()
	if err := s.create(ctx); err != nil {
		pool.Close()
		return nil, openError(ctx, o, err)
	}
	return s, nil
}

// settings of every connection. Why: all statements are lookups and ranges of the one index, and
// plans that do not use it are wrong, however small the table is when they are made.
const settings = `SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;
	SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off;
	SET plan_cache_mode = force_generic_plan`

// settle makes the settings. A server that does not know them plans in its own way.
func settle(ctx context.Context, c *pgx.Conn) error {
	_, err := c.Exec(ctx, settings)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && isError(refused) {
		return nil
	}
	return err
}

// create creates the table unless it is there.
func (s *Store) create(ctx context.Context) error {
	var there bool
	err := s.pool.QueryRow(ctx, `SELECT to_regclass($1::text) IS NOT NULL`, s.sql.table).
		Scan(&there)
	if err != nil || there {
		return err
	}
	_, err = s.pool.Exec(ctx, s.sql.create)
	if c := code(err); c == "23505" || c == "42P07" { // somebody else has
		return nil
	}
	return err
}

// openError says where, what and what to do.
func openError(ctx context.Context, o *options, err error) error {
	c := o.pool.ConnConfig
	place := fmt.Sprintf("postgres: %s:%d/%s as %s", c.Host, c.Port, c.Database, c.User)
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w: %v", place, context.Cause(ctx), firstLine(err))
	}
	remedy := "see that the server runs and takes connections from here"
	switch state := code(err); {
	case strings.HasPrefix(state, "28"):
		remedy = "check user, password and the server's pg_hba.conf"
	case state == "3D000":
		remedy = "create the database"
	case state == "42501":
		remedy = "let an owner create the table, or grant CREATE, SELECT, INSERT, UPDATE, DELETE"
	case state == "3F000":
		remedy = "create the schema of the table"
	case strings.HasPrefix(state, "53"):
		remedy = "the server is full: close connections, or lower pool_max_conns"
	case strings.Contains(err.Error(), "tls"), strings.Contains(err.Error(), "x509"):
		remedy = "check sslmode, sslrootcert, sslcert and sslkey"
	}
	return fmt.Errorf("%s: %w; %s", place, err, remedy)
}

// firstLine leaves out the list of what has been tried.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// statements are those of a table.
type statements struct {
	table, create, get, up, down, count, commit, remove, version, stage, load string
}

func statementsOf(table pgx.Identifier) statements {
	sequence := append(pgx.Identifier{}, table...)
	sequence[len(sequence)-1] += "_version"
	with := func(text string) string {
		return strings.NewReplacer("TABLE_", table.Sanitize(), "SEQUENCE_", sequence.Sanitize(),
			"NEXTVAL_", "nextval('"+strings.ReplaceAll(sequence.Sanitize(), "'", "''")+"')").
			Replace(text)
	}
	const page = `SELECT k, v, version, expiry FROM TABLE_ WHERE k >= $1 AND k < $2 ORDER BY k `
	return statements{
		table: table.Sanitize(),
		create: with(`CREATE SEQUENCE IF NOT EXISTS SEQUENCE_;
			CREATE TABLE IF NOT EXISTS TABLE_ (k bytea PRIMARY KEY, v bytea NOT NULL,
				version bigint NOT NULL, expiry bigint)`),
		get:  with(`SELECT k, v, version, expiry FROM TABLE_ WHERE k = ANY ($1)`),
		up:   with(page + `LIMIT $3`),
		down: with(page + `DESC LIMIT $3`),
		count: with(`SELECT count(*) FROM (SELECT FROM TABLE_ WHERE k >= $1 AND k < $2
			AND (expiry IS NULL OR expiry > $3) LIMIT $4) t`),
		commit: with(commitStatement),
		remove: with(`DELETE FROM TABLE_ USING unnest($1::bytea[], $2::bytea[]) AS r (a, b)
			WHERE k >= a AND k < b`),
		version: with(`SELECT NEXTVAL_`),
		stage: `CREATE TEMPORARY TABLE kstone_load (n bigint, k bytea, v bytea, expiry bigint)
			ON COMMIT DROP`,
		load: with(`INSERT INTO TABLE_ (k, v, version, expiry)
			SELECT DISTINCT ON (k) k, v, (SELECT NEXTVAL_), expiry FROM kstone_load
			ORDER BY k, n DESC
			ON CONFLICT (k) DO UPDATE SET v = excluded.v, version = excluded.version,
				expiry = excluded.expiry`),
	}
}

// commitStatement checks conditions and, if all hold, writes. It returns the first condition that
// does not.
//
//	$1..$5  conditions: number, key, kind, value, version
//	$6      the time in Unix milliseconds
//	$7..$9  puts: key, value, expiry (0: none)
//	$10     keys to delete
const commitStatement = `
WITH failed AS MATERIALIZED (
	SELECT c.op, t.k IS NOT NULL AS there, t.version
	FROM unnest($1::int[], $2::bytea[], $3::int[], $4::bytea[], $5::bigint[])
		AS c (op, k, kind, want, version)
	LEFT JOIN TABLE_ t ON t.k = c.k AND (t.expiry IS NULL OR t.expiry > $6)
	WHERE NOT CASE c.kind
		WHEN 1 THEN t.k IS NULL
		WHEN 2 THEN t.k IS NOT NULL
		WHEN 3 THEN t.k IS NOT NULL AND t.v = c.want
		ELSE t.k IS NOT NULL AND t.version = c.version END
	ORDER BY c.op LIMIT 1
), put AS (
	INSERT INTO TABLE_ (k, v, version, expiry)
	SELECT p.k, p.v, (SELECT NEXTVAL_), nullif(p.expiry, 0)
	FROM unnest($7::bytea[], $8::bytea[], $9::bigint[]) AS p (k, v, expiry)
	WHERE NOT EXISTS (SELECT FROM failed)
	ON CONFLICT (k) DO UPDATE SET v = excluded.v, version = excluded.version,
		expiry = excluded.expiry
), gone AS (
	DELETE FROM TABLE_ WHERE k = ANY ($10::bytea[]) AND NOT EXISTS (SELECT FROM failed)
)
SELECT op, there, coalesce(version, 0) FROM failed`
