package readers

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	sqlite "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/migrate"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/keycodec"
)

// sqliteFile is a database of SQLite in one read transaction.
type sqliteFile struct {
	db     *sql.DB
	conn   *sql.Conn
	tables []migrate.Table
	rowids map[string]string // the column that rowids become, of tables without a primary key
	left   []string
}

// openSQLite opens a database and reads the definitions of its tables.
func openSQLite(path string) (_ migrate.Tables, err error) {
	name, err := sqliteName(path)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	s := &sqliteFile{db: db, rowids: map[string]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(sqliteError(err), s.Close())
		}
	}()
	ctx := context.Background()
	if s.conn, err = db.Conn(ctx); err != nil {
		return nil, err
	}
	if _, err := s.conn.ExecContext(ctx, "BEGIN"); err != nil {
		return nil, err
	}
	return s, s.read(ctx)
}

// On disk: the head of a database of SQLite.
const (
	sqliteHead   = "SQLite format 3\x00"
	sqliteHeadAt = 19 // the version that readers need: 2 for a database with a write-ahead log
	sqliteWAL    = 2
)

// sqliteName returns the name under which SQLite opens a file read-only. Why immutable: to read a
// database with a write-ahead log, SQLite makes files beside it if they are not there; without
// them nobody has it open, and it is read as it is.
func sqliteName(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head := make([]byte, sqliteHeadAt+1)
	if _, err := io.ReadFull(f, head); err != nil || string(head[:len(sqliteHead)]) != sqliteHead {
		return "", errors.New("it does not begin as a database of SQLite: it is another file, or " +
			"encrypted; decrypt a copy with its own program")
	}
	name := "file:" + (&url.URL{Path: path}).EscapedPath() + "?mode=ro&_pragma=busy_timeout(1000)"
	if _, err := os.Stat(path + "-wal"); head[sqliteHeadAt] == sqliteWAL && os.IsNotExist(err) {
		name += "&immutable=1"
	}
	return name, nil
}

// sqliteError adds to an error of SQLite what it means for a migration.
func sqliteError(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fmt.Errorf("%w: %w", migrate.ErrBusy, err)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN:
		return cli.Advise(err, "its last program did not end well; open it once with that "+
			"program, which rolls back or finishes what was under way")
	}
	return err
}

// Tables implements migrate.Tables.
func (s *sqliteFile) Tables() []migrate.Table { return s.tables }

// Left implements migrate.Tables.
func (s *sqliteFile) Left() []string { return s.left }

// Close implements migrate.Tables.
func (s *sqliteFile) Close() error {
	var err error
	if s.conn != nil {
		err = s.conn.Close()
	}
	return errors.Join(err, s.db.Close())
}

// quoted returns a name as statements have it.
func quoted(name string) string { return cli.QuoteName(name) }

// Rows implements migrate.Tables.
func (s *sqliteFile) Rows(ctx context.Context, t *migrate.Table) iter.Seq2[[]expr.Value, error] {
	return func(yield func([]expr.Value, error) bool) {
		var columns []string
		for i := range t.Columns {
			name := quoted(t.Columns[i].Name)
			if t.Columns[i].Name == s.rowids[t.Name] {
				name = rowidOf(t)
			}
			columns = append(columns, "+"+name) // without a declared type, so that values stay
		}
		rows, err := s.conn.QueryContext(ctx, "SELECT "+strings.Join(columns, ", ")+" FROM "+
			quoted(t.Name))
		if err != nil {
			yield(nil, sqliteError(err))
			return
		}
		defer rows.Close()
		cells := make([]any, len(columns))
		for i := range cells {
			cells[i] = new(any)
		}
		for rows.Next() {
			row := make([]expr.Value, len(cells))
			err := rows.Scan(cells...)
			for i := range cells {
				if err == nil {
					row[i], err = valueOf(*cells[i].(*any), t.Columns[i].To)
				}
			}
			if !yield(row, err) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, sqliteError(err))
		}
	}
}

// rowidOf returns a name of the rowid, which is the first column of a table, that no other one has.
func rowidOf(t *migrate.Table) string {
	names := []string{"_rowid_", "oid", "rowid"}
	for _, c := range t.Columns[1:] {
		names = slices.DeleteFunc(names, func(name string) bool {
			return len(names) > 1 && strings.EqualFold(name, c.Name)
		})
	}
	return names[0]
}

// valueOf returns a value in a column of a type. Its own conversion is that of storage classes
// which a column mixes.
func valueOf(v any, to string) (expr.Value, error) {
	text := ""
	switch v := v.(type) {
	case nil:
		return expr.Null(), nil
	case int64:
		switch {
		case to == typeBool:
			return expr.Bool(v != 0), nil
		case to != typeText && to != typeBytes:
			return expr.Int(v), nil
		}
		text = strconv.FormatInt(v, 10)
	case float64:
		text = strconv.FormatFloat(v, 'g', -1, 64)
		if to == typeDecimal {
			d, err := keycodec.ParseDecimal(text)
			return expr.Decimal(d), rowError(err)
		}
		if to != typeText && to != typeBytes {
			return expr.Float(v), nil
		}
	case string:
		text = v
	case []byte:
		return expr.Bytes(v), nil
	default:
		return expr.Value{}, &migrate.RowError{Reason: fmt.Sprintf("a value of type %T", v)}
	}
	if to == typeBytes {
		return expr.Bytes([]byte(text)), nil
	}
	return expr.String(text), nil
}

func rowError(err error) error {
	if err == nil {
		return nil
	}
	return &migrate.RowError{Reason: err.Error()}
}
