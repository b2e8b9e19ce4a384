package small

import (
	"database/sql"
	"errors"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver "sqlite", in Go

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
)

// sqlite keeps pairs in a table.
type sqlite struct{ *sql.DB }

func openSQLite(c store.Config) (db, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(c.Dir, "db.sqlite")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return sqlite{db}, err
}

// Get makes the table if there is none.
func (s sqlite) Get(dst []byte, k store.Key) (v []byte, ok bool, err error) {
	err = s.QueryRow("SELECT v FROM kv WHERE k = ?", k.Bytes).Scan(&v)
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		return append(dst, v...), err == nil, nil
	}
	_, err = s.Exec("CREATE TABLE IF NOT EXISTS kv (k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID")
	return dst, false, err
}

func (s sqlite) PutBatch(keys []store.Key, values [][]byte) error {
	tx, err := s.Begin()
	if err != nil {
		return err
	}
	put, err := tx.Prepare("INSERT OR REPLACE INTO kv VALUES (?, ?)")
	for i := 0; err == nil && i < len(keys); i++ {
		_, err = put.Exec(keys[i].Bytes, values[i])
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit() // which closes the statement
}
