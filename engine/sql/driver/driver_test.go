package driver_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	kstone "github.com/kstonedb/kstone/engine/sql"
	kdriver "github.com/kstonedb/kstone/engine/sql/driver"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote/remotetest"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
)

var ok, wantIs = testutil.OK, testutil.WantIs

var ctx = context.Background()

func open(t testing.TB, name string) *sql.DB {
	t.Helper()
	db, err := sql.Open("kstone", name)
	ok(t, err)
	t.Cleanup(func() { ok(t, db.Close()) })
	return db
}

type execer interface {
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
}

// exec runs statements and returns the number of rows.
func exec(t testing.TB, db execer, text string, args ...any) int64 {
	t.Helper()
	r, err := db.ExecContext(ctx, text, args...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	n, err := r.RowsAffected()
	ok(t, err)
	return n
}

type queryer interface {
	QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row
}

// one returns the value of a query.
func one[T any](t testing.TB, db queryer, text string, args ...any) (v T) {
	t.Helper()
	if err := db.QueryRowContext(ctx, text, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func failsWith(t testing.TB, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want one with %q", err, part)
		}
	}
}

// TestDataSourceNames: what is wrong in one is refused when it is opened.
func TestDataSourceNames(t *testing.T) {
	for name, want := range map[string]string{
		"":                         "has no directory",
		"x?durable=sync":           `no option "durable"; there are: cache_bytes, durability, `,
		"x?durability=fast":        `option durability: "fast" is not process, sync`,
		"x?mode=":                  `is not create, ro, rw`,
		"x?workers=0":              "is not a number above zero",
		"x?workers=1&workers=2":    "is given 2 times",
		"x?mode=%zz":               "invalid URL escape",
		":memory:?cache_bytes=big": "is not a number above zero",
	} {
		_, err := sql.Open("kstone", name)
		failsWith(t, err, want)
	}
	missing := open(t, filepath.Join(t.TempDir(), "none")+"?mode=rw")
	wantIs(t, missing.Ping(), engine.ErrNotExist)
}

// TestSharedDatabase: sql.DBs of one directory share it, and the last one closes it; those in
// memory share nothing; a program's own stays open.
//
// Promise (sql): All sql.DBs of a directory in a process share one open database, which is closed
// with the last of them and its connections; each of :memory: has its own. Also
// `TestDataSourceNames` in `engine/sql/driver`.
func TestSharedDatabase(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if os.Symlink(t.TempDir(), link) != nil { // not allowed on Windows, mostly
		link = t.TempDir()
	}
	dir := filepath.Join(link, "a.db")
	a, err := sql.Open("kstone", dir+"?durability=process&workers=2")
	ok(t, err)
	exec(t, a, "CREATE TABLE t (id INT PRIMARY KEY)")
	b, err := sql.Open("kstone", dir+"/../a.db?workers=2&durability=process")
	ok(t, err)
	exec(t, b, "INSERT INTO t VALUES (1)")
	failsWith(t, open(t, dir).Ping(), "is open already, with the options")
	used, err := a.Conn(ctx)
	ok(t, err)
	exec(t, used, "BEGIN; INSERT INTO t VALUES (2)")
	ok(t, errors.Join(a.Close(), b.Close()))
	if _, err := engine.Open(dir, nil); !errors.Is(err, engine.ErrLocked) {
		t.Errorf("a connection is in use: %v", err)
	}
	if err := used.Close(); err != nil && !errors.Is(err, driver.ErrBadConn) {
		t.Error(err)
	}
	e, err := engine.Open(dir, nil)
	ok(t, err)
	defer e.Close()
	tables, err := local.Open(ctx, e, nil)
	ok(t, err)
	defer tables.Close()
	own := sql.OpenDB(kdriver.NewConnector(tables))
	if n := one[int](t, own, "SELECT count(*) FROM t"); n != 1 {
		t.Errorf("%d rows", n)
	}
	ok(t, own.Close())
	if _, err := tables.Table("t"); err != nil {
		t.Error(err)
	}
	for range 2 {
		db := open(t, ":memory:")
		db.SetMaxIdleConns(0) // so that each statement has a connection of its own
		exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY)")
		exec(t, db, "INSERT INTO t VALUES (1)")
	}
}

// TestPingWithoutTransactions: storage that has no transactions is in order, too.
func TestPingWithoutTransactions(t *testing.T) {
	tables, err := table.OpenStore(ctx, struct{ store.Store }{remotetest.New(true, 1<<20)}, nil)
	ok(t, err)
	defer tables.Close()
	db := sql.OpenDB(kdriver.NewConnector(tables))
	defer db.Close()
	ok(t, db.Ping())
}

// TestReadOnly: mode=ro reads and refuses the rest.
func TestReadOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a.db")
	db, err := sql.Open("kstone", dir)
	ok(t, err)
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (7)")
	ok(t, db.Close())
	db = open(t, dir+"?mode=ro")
	if id := one[int](t, db, "SELECT id FROM t"); id != 7 {
		t.Error(id)
	}
	_, err = db.Exec("DELETE FROM t")
	wantIs(t, err, engine.ErrReadOnly)
	tx, err := db.Begin()
	ok(t, err)
	_, err = tx.Exec("DELETE FROM t")
	wantIs(t, err, engine.ErrReadOnly)
	ok(t, tx.Rollback())
}

// TestValuesKeepTheirValue: arguments come back as they were, from every type of column.
//
// Promise (sql): Values pass database/sql both ways without loss, or are refused. Also
// `TestArguments`, `TestLists` in `engine/sql/driver`.
func TestValuesKeepTheirValue(t *testing.T) {
	db := open(t, ":memory:")
	at := time.Date(2026, 2, 3, 4, 5, 6, 123456789, time.UTC)
	uuid := [16]byte{0: 1, 15: 0xfe}
	for i, c := range []struct {
		typ       string
		arg, want any // want nil: the same
	}{
		{"INT", int64(math.MinInt64), nil}, {"INT", int8(-5), int64(-5)},
		{"UINT64", uint64(math.MaxUint64), nil}, {"FLOAT", math.Inf(-1), nil},
		{"FLOAT", 0.1, nil}, {"BOOL", true, nil}, {"TEXT", "a\x00ü", nil}, {"TEXT", "", nil},
		{"BYTES", []byte{0, 255}, nil}, {"BYTES", []byte{}, nil}, {"TIMESTAMP(ns)", at, nil},
		{"TIMESTAMP(full)", at.In(time.FixedZone("x", 3600)), at},
		{"UUID", uuid, "01000000-0000-0000-0000-0000000000fe"},
		{"IP", netip.MustParseAddr("10.1.2.3"), "10.1.2.3"}, {"IP", "::1", "::1"},
		{"IPPREFIX", "10.0.0.0/8", "10.0.0.0/8"},
		{"DECIMAL", "12345678901234567890.125", "12345678901234567890.125"},
		{"DECIMAL(10, 2)", "0.50", "0.5"}, {"INT", nil, nil}, {"TEXT", (*string)(nil), nil},
		{"TEXT", sql.NullString{}, nil}, {"INT", sql.NullInt64{Int64: 3, Valid: true}, int64(3)},
		{"TEXT[]", []string{"a", ""}, []any{"a", ""}},
		{"UINT64[]", []uint64{1 << 63}, []any{uint64(1 << 63)}},
	} {
		name := fmt.Sprint("t", i)
		exec(t, db, fmt.Sprintf("CREATE TABLE %s (id INT PRIMARY KEY, v %s NULL)", name, c.typ))
		exec(t, db, "INSERT INTO "+name+" VALUES (1, ?)", c.arg)
		want := c.want
		if want == nil && c.arg != nil && !reflect.ValueOf(c.arg).IsZero() || c.arg == "" {
			want = c.arg
		}
		if got := one[any](t, db, "SELECT v FROM "+name); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %T %v, want %T %v", c.typ, got, got, want, want)
		}
	}
}

// valuer is an argument that says what its value is.
type valuer struct{ n int64 }

// Value implements driver.Valuer.
func (v valuer) Value() (driver.Value, error) {
	if v.n == 0 {
		return nil, errors.New("no value")
	}
	return v.n, nil
}

// TestArguments: names, numbers, valuers, and what is wrong.
func TestArguments(t *testing.T) {
	db := open(t, ":memory:")
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY, v INT8 NULL)")
	exec(t, db, "INSERT INTO t VALUES (:id, :v), (:id + 1, :v)", sql.Named("v", 3),
		sql.Named("id", valuer{5}))
	exec(t, db, "INSERT INTO t VALUES ($2, ?1)", 4, 9)
	exec(t, db, "INSERT INTO t VALUES (?, ?)", 10, (*valuer)(nil))
	if n := one[int](t, db, "SELECT sum(v) FROM t WHERE id IN (?)", []int{5, 9}); n != 7 {
		t.Error(n)
	}
	for text, args := range map[string][]any{
		"INSERT INTO t VALUES (20, ?)":     {128},
		"INSERT INTO t VALUES (20, ?1)":    {"x"},
		"INSERT INTO t VALUES (21, ?)":     {},
		"INSERT INTO t VALUES (22, 1)":     {1},
		"INSERT INTO t VALUES (23, :v)":    {sql.Named("w", 1)},
		"INSERT INTO t VALUES (24, $1)":    {struct{}{}},
		"INSERT INTO t VALUES (25, $1)  ":  {valuer{}},
		"INSERT INTO t VALUES (?, ?); ":    {1, 2, 3},
		"DELETE FROM t; DELETE FROM t; --": {1},
		"SELECT id FROM t":                 nil,
	} {
		if _, err := db.Exec(text, args...); err == nil {
			t.Errorf("%s with %v was taken", text, args)
		}
	}
}

// TestLists: they are scanned into slices.
func TestLists(t *testing.T) {
	db := open(t, ":memory:")
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY, tags TEXT[] NULL, n INT[])")
	exec(t, db, "INSERT INTO t VALUES (1, ?, ?), (2, NULL, ?)", []string{"a", "b"}, []int{1},
		[]int64{})
	var tags []string
	var n []int64
	scan := func(id int) error {
		return db.QueryRow("SELECT tags, n FROM t WHERE id = ?", id).
			Scan((*kdriver.List[string])(&tags), (*kdriver.List[int64])(&n))
	}
	if err := scan(1); err != nil || fmt.Sprint(tags, n) != "[a b] [1]" {
		t.Error(tags, n, err)
	}
	if err := scan(2); err != nil || tags != nil || len(n) != 0 {
		t.Error(tags, n, err)
	}
	err := db.QueryRow("SELECT n FROM t WHERE id = 1").Scan((*kdriver.List[string])(&tags))
	failsWith(t, err, "element 0 of the list is of type int64, not string")
	err = db.QueryRow("SELECT id FROM t").Scan((*kdriver.List[string])(&tags))
	failsWith(t, err, "not a list")
}

// TestColumnTypes: of columns, of those that an outer join makes NULL, and of expressions.
func TestColumnTypes(t *testing.T) {
	db := open(t, ":memory:")
	exec(t, db, "CREATE TABLE t (id UINT8 PRIMARY KEY, at TIMESTAMP(ms) NULL, d DECIMAL(9, 2), "+
		"l TEXT[])")
	rows, err := db.Query("SELECT a.id, a.at, b.d AS x, a.l, count(*), a.d FROM t AS a " +
		"LEFT JOIN t AS b ON a.id = b.id GROUP BY a.id, a.at, b.d, a.l, a.d")
	ok(t, err)
	defer rows.Close()
	types, err := rows.ColumnTypes()
	ok(t, err)
	var got []string
	for _, c := range types {
		nullable, _ := c.Nullable()
		precision, scale, _ := c.DecimalSize()
		got = append(got, fmt.Sprint(c.Name(), " ", c.DatabaseTypeName(), " ", c.ScanType(), " ",
			nullable, " ", precision, " ", scale))
	}
	want := []string{"id UINT8 uint64 false 0 0", "at TIMESTAMP time.Time true 0 0",
		"x DECIMAL string true 18 2", "l TEXT[] []interface {} false 0 0",
		"count(*) INT int64 true 0 0", "d DECIMAL string false 18 2"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
}

// TestPooledTransactions: Tx does what it should; what a statement has begun ends with the use of
// the connection.
//
// Promise (sql): A transaction of database/sql is one of the session; a connection never returns
// to the pool with an open one. Also `TestPool` in `engine/sql/driver`.
func TestPooledTransactions(t *testing.T) {
	db := open(t, ":memory:")
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY)")
	count := func() int { return one[int](t, db, "SELECT count(*) FROM t") }
	tx, err := db.Begin()
	ok(t, err)
	exec(t, tx, "INSERT INTO t VALUES (1)")
	if in, out := one[int](t, tx, "SELECT count(*) FROM t"), count(); in != 1 || out != 0 {
		t.Errorf("%d rows in the transaction, %d outside", in, out)
	}
	_, err = tx.Exec("INSERT INTO t VALUES (1)")
	wantIs(t, err, table.ErrUnique)
	if err := tx.Commit(); err != nil || count() != 1 {
		t.Error(err, count())
	}
	for level := sql.LevelDefault; level <= sql.LevelLinearizable+1; level++ {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level, ReadOnly: true})
		if level > sql.LevelLinearizable {
			failsWith(t, err, "no isolation level 8")
			continue
		}
		ok(t, err)
		_, err = tx.Exec("DELETE FROM t")
		failsWith(t, err, "DELETE is not possible in a READ ONLY transaction")
		ok(t, tx.Rollback())
	}
	db.SetMaxOpenConns(1)
	exec(t, db, "BEGIN; DELETE FROM t")
	if n := count(); n != 1 {
		t.Errorf("%d rows after a BEGIN that nothing ends", n)
	}
	_, err = db.Exec("COMMIT")
	failsWith(t, err, "there is no open transaction")
	db.SetMaxOpenConns(0)
	ended, cancel := context.WithCancel(ctx)
	if tx, err = db.BeginTx(ended, nil); err != nil {
		t.Fatal(err)
	}
	exec(t, tx, "DELETE FROM t")
	cancel()
	if err := tx.Commit(); err == nil || count() != 1 {
		t.Errorf("committed after its context: %v, %d rows", err, count())
	}
	a, b := begin(t, db), begin(t, db)
	exec(t, a, "INSERT INTO t SELECT id + 1 FROM t")
	exec(t, b, "INSERT INTO t SELECT id + 1 FROM t")
	err = errors.Join(a.Commit(), b.Commit())
	var conflict *kstone.ConflictError
	if !errors.As(err, &conflict) || !errors.Is(err, table.ErrConflict) || count() != 2 {
		t.Errorf("%v, %d rows", err, count())
	}
}

func begin(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	tx, err := db.Begin()
	ok(t, err)
	return tx
}

// TestStatementsOfOneText: several are run in their order, and give several sets of results.
func TestStatementsOfOneText(t *testing.T) {
	db := open(t, ":memory:")
	n := exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (?), (?); "+
		"DELETE FROM t WHERE id = ?; -- the end", 1, 2, 1)
	if n != 3 {
		t.Errorf("%d rows", n)
	}
	exec(t, db, "-- nothing")
	rows, err := db.Query("INSERT INTO t VALUES (?); SELECT id FROM t ORDER BY id; "+
		"SELECT 'x' WHERE 1 > 2; SELECT id, ? FROM t LIMIT 1", 5, "y")
	ok(t, err)
	defer rows.Close()
	var sets []string
	for {
		columns, err := rows.Columns()
		set := fmt.Sprint(len(columns))
		for rows.Next() {
			cells := []any{new(any), new(any)}
			err = errors.Join(err, rows.Scan(cells[:len(columns)]...))
			set += fmt.Sprint(" ", *cells[0].(*any))
		}
		if err != nil || rows.Err() != nil {
			t.Fatal(err, rows.Err())
		}
		if sets = append(sets, set); !rows.NextResultSet() {
			break
		}
	}
	if got := strings.Join(sets, ", "); got != "1 2 5, 1, 2 2" {
		t.Error(got)
	}
	for text, want := range map[string]string{
		"SELECT id FROM t; DELETE FROM t": "DELETE FROM t follows a statement that returns rows",
		"DELETE FROM t":                   "Query",
		"SELEC id FROM t; SELECT 1":       "SELECT",
	} {
		_, err := db.Query(text)
		failsWith(t, err, want)
	}
	for _, args := range [][]any{{7}, {7, 8, 9}} { // nothing is written
		_, err := db.Exec("INSERT INTO t VALUES (?); INSERT INTO t VALUES (?)", args...)
		failsWith(t, err, fmt.Sprintf("%d values for 2 parameters", len(args)))
		_, err = db.Query("INSERT INTO t VALUES ($1); SELECT ?", args...)
		failsWith(t, err, fmt.Sprintf("%d values for 2 parameters", len(args)))
	}
	_, err = db.Exec("INSERT INTO t VALUES (7); SELECT id FROM t")
	wantIs(t, err, kstone.ErrNoResult)
	exec(t, db, "INSERT INTO t VALUES (:x); DELETE FROM t WHERE id = ?", sql.Named("x", 7), 5)
	if n := one[int](t, db, "SELECT count(*) FROM t WHERE id = 5"); n != 0 {
		t.Error("a value without a name that follows one with a name is not found")
	}
	r, err := db.Exec("INSERT INTO t VALUES (9)")
	ok(t, err)
	_, err = r.LastInsertId()
	failsWith(t, err, "no LastInsertId")
}

// TestLastInsertId: the number of the last row, made or given.
func TestLastInsertId(t *testing.T) {
	db := open(t, ":memory:")
	for _, c := range []struct {
		text string
		want int64
	}{
		{"CREATE TABLE n (id INT PRIMARY KEY AUTO_INCREMENT, v TEXT UNIQUE); " +
			"INSERT INTO n (v) VALUES ('a')", 1},
		{"INSERT INTO n (v) VALUES ('b'), ('c')", 3},
		{"INSERT INTO n VALUES (90, 'd')", 90},
		{"INSERT INTO n VALUES (NULL, 'e')", 91},
		{"INSERT OR IGNORE INTO n (v) VALUES ('f'), ('a')", 92},
		{"INSERT OR REPLACE INTO n (v) VALUES ('a')", 94},
		{"INSERT INTO n (v) VALUES ('a'), ('g') ON CONFLICT (v) DO UPDATE SET v = 'h'", 96},
	} {
		r, err := db.Exec(c.text)
		ok(t, err)
		if id, err := r.LastInsertId(); id != c.want || err != nil {
			t.Errorf("%s: %d, %v, want %d", c.text, id, err, c.want)
		}
	}
}

// TestPrepared: a statement follows its transaction, and changes of its table.
func TestPrepared(t *testing.T) {
	db := open(t, ":memory:")
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY)")
	put, err := db.Prepare("INSERT INTO t (id) VALUES (?)")
	ok(t, err)
	defer put.Close()
	for i := range 5 {
		if _, err := put.Exec(i); err != nil {
			t.Fatal(err)
		}
	}
	tx := begin(t, db)
	if _, err := tx.Stmt(put).Exec(9); err != nil {
		t.Fatal(err)
	}
	ok(t, tx.Rollback())
	exec(t, db, "ALTER TABLE t ADD COLUMN v TEXT DEFAULT 'x'")
	if _, err := put.Exec(10); err != nil {
		t.Fatal(err)
	}
	all, err := db.Prepare("SELECT count(*) FROM t WHERE v = ?")
	ok(t, err)
	defer all.Close()
	var n int
	if err := all.QueryRow("x").Scan(&n); err != nil || n != 6 {
		t.Error(n, err)
	}
	_, err = db.Prepare("SELECT vv FROM t")
	failsWith(t, err, "did you mean v?")
}

// TestContextEndsAQuery: one that would take ages ends with its context, and the connection can
// be used again.
func TestContextEndsAQuery(t *testing.T) {
	db := open(t, ":memory:")
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (0)")
	for n := 1; n < 1024; n *= 2 {
		exec(t, db, "INSERT INTO t SELECT id + ? FROM t", n)
	}
	db.SetMaxOpenConns(1)
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	var n int
	err := db.QueryRowContext(short,
		"SELECT count(*) FROM t AS a, t AS b, t AS c WHERE a.id + b.id + c.id < 0").Scan(&n)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(n, err)
	}
	if n := one[int](t, db, "SELECT count(*) FROM t"); n != 1024 {
		t.Error(n)
	}
}

// TestRowsBlockWrites: in a transaction, what is being read is not written.
func TestRowsBlockWrites(t *testing.T) {
	db := open(t, ":memory:")
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)")
	tx := begin(t, db)
	rows, err := tx.Query("SELECT id FROM t")
	if err != nil || !rows.Next() {
		t.Fatal(err)
	}
	_, err = tx.Exec("DELETE FROM t")
	failsWith(t, err, "rows of the transaction are being read")
	ok(t, rows.Close())
	exec(t, tx, "DELETE FROM t")
	ok(t, tx.Commit())
}

// TestClosedConnections: they are bad, so that the pool gets rid of them.
func TestClosedConnections(t *testing.T) {
	c, err := kdriver.Driver{}.Open(":memory:")
	ok(t, err)
	ok(t, errors.Join(c.(driver.Pinger).Ping(ctx), c.Close(), c.Close()))
	_, prepared := c.Prepare("SELECT 1")
	_, begun := c.(driver.ConnBeginTx).BeginTx(ctx, driver.TxOptions{})
	for _, err := range []error{prepared, begun, c.(driver.Pinger).Ping(ctx),
		c.(driver.SessionResetter).ResetSession(ctx)} {
		wantIs(t, err, driver.ErrBadConn)
	}
	if c.(driver.Validator).IsValid() {
		t.Error("a closed connection is valid")
	}
}

// TestPool: many goroutines, each its transactions, lose no increment.
func TestPool(t *testing.T) {
	db := open(t, ":memory:")
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 0)")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for done := 0; done < 10; {
				tx, err := db.Begin()
				if err != nil {
					t.Error(err)
					return
				}
				var n int
				err = tx.QueryRow("SELECT n FROM t WHERE id = 1").Scan(&n)
				if err == nil {
					_, err = tx.Exec("UPDATE t SET n = ? WHERE id = 1", n+1)
				}
				if err == nil {
					err = tx.Commit()
				}
				switch {
				case err == nil:
					done++
				case !errors.Is(err, table.ErrConflict):
					t.Error(err)
					return
				}
				_ = tx.Rollback()
			}
		})
	}
	wg.Wait()
	if n := one[int](t, db, "SELECT n FROM t"); n != 40 {
		t.Errorf("%d increments of 40", n)
	}
}

func TestReturning(t *testing.T) {
	db := open(t, ":memory:")
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY, n INT)")
	if got := one[int](t, db, "INSERT INTO t VALUES (?, ?) RETURNING id + n", 4, 3); got != 7 {
		t.Errorf("RETURNING gives %d", got)
	}
}

// TestRetainVersions: with the option, AS OF finds what a row was.
func TestRetainVersions(t *testing.T) {
	db := open(t, ":memory:?retain_versions=24h")
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY, n INT)")
	exec(t, db, "INSERT INTO t VALUES (1, 7)")
	exec(t, db, "UPDATE t SET n = 8")
	var n, version int
	var err error
	for n != 7 && version < 100 {
		version++
		err = db.QueryRow(fmt.Sprint("SELECT n FROM t AS OF ", version)).Scan(&n)
	}
	if n != 7 {
		t.Errorf("no version has the row as it was: %v", err)
	}
	_, err = sql.Open("kstone", ":memory:?retain_versions=5")
	failsWith(t, err, "is not a duration like 90s")
}

// TestTransactionAge: what a program has forgotten ends, and its connection is good again.
func TestTransactionAge(t *testing.T) {
	db := open(t, ":memory:?tx_age=20ms")
	exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY)")
	tx, err := db.Begin()
	ok(t, err)
	for err == nil {
		_, err = tx.Exec("DELETE FROM t")
	}
	if !errors.Is(err, table.ErrTxAge) || !errors.Is(tx.Commit(), table.ErrTxAge) {
		t.Error(err)
	}
	exec(t, db, "INSERT INTO t VALUES (1)")
	_, err = sql.Open("kstone", ":memory:?tx_age=5")
	failsWith(t, err, "is not a duration like 90s")
}
