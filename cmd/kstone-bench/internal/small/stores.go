package small

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/dgraph-io/badger/v4"
	"go.etcd.io/bbolt"
	_ "modernc.org/sqlite" // the driver "sqlite", in Go

	"github.com/kstonedb/kstone/engine"
)

// store is an open database.
type store interface {
	// read looks for a key, which need not exist: an opening has ended when it can.
	read(key []byte) error
	// put writes all items in one commit.
	put(items []item) error
	Close() error
}

type item struct{ key, value []byte }

// contestant is a database with its defaults.
type contestant struct {
	name, module, settings string
	open                   func(dir string) (store, error)
}

var contestants = []contestant{
	{"kstone", "", "defaults", openKstone},
	{"bbolt", "go.etcd.io/bbolt", "defaults", openBbolt},
	{"sqlite", "modernc.org/sqlite", "WAL, synchronous FULL, one table without rowid", openSQLite},
	{"pebble", "github.com/cockroachdb/pebble/v2", "defaults, synced writes", openPebble},
	{"badger", "github.com/dgraph-io/badger/v4", "defaults, SyncWrites", openBadger},
}

type kstone struct{ *engine.DB }

func openKstone(dir string) (store, error) {
	db, err := engine.Open(dir, nil)
	return kstone{db}, err
}

func (s kstone) read(key []byte) error {
	_, err := s.Has(engine.Key{PK: key})
	return err
}

func (s kstone) put(items []item) error {
	b := engine.NewBatch()
	for _, it := range items {
		if err := b.Put(engine.Key{PK: it.key}, it.value); err != nil {
			return err
		}
	}
	return s.Apply(context.Background(), b, engine.Sync)
}

type bolt struct{ *bbolt.DB }

var bucket = []byte("b")

func openBbolt(dir string) (store, error) {
	db, err := bbolt.Open(filepath.Join(dir, "bolt"), 0o644, nil)
	return bolt{db}, err
}

func (s bolt) read(key []byte) error {
	return s.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket(bucket); b != nil {
			b.Get(key)
		}
		return nil
	})
}

func (s bolt) put(items []item) error {
	return s.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(bucket)
		for _, it := range items {
			err = errors.Join(err, b.Put(it.key, it.value))
		}
		return err
	})
}

type sqlite struct{ *sql.DB }

func openSQLite(dir string) (store, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "db.sqlite")+
		"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return sqlite{db}, err
}

// read makes the table if there is none.
func (s sqlite) read(key []byte) error {
	var v []byte
	err := s.QueryRow("SELECT v FROM kv WHERE k = ?", key).Scan(&v)
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	_, err = s.Exec("CREATE TABLE IF NOT EXISTS kv (k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID")
	return err
}

func (s sqlite) put(items []item) error {
	tx, err := s.Begin()
	if err != nil {
		return err
	}
	for _, it := range items {
		_, perr := tx.Exec("INSERT OR REPLACE INTO kv VALUES (?, ?)", it.key, it.value)
		err = errors.Join(err, perr)
	}
	return errors.Join(err, tx.Commit())
}

type pebbleDB struct{ *pebble.DB }

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

func openPebble(dir string) (store, error) {
	db, err := pebble.Open(dir, &pebble.Options{
		FormatMajorVersion: pebble.FormatNewest, Logger: quiet{},
	})
	return pebbleDB{db}, err
}

func (s pebbleDB) read(key []byte) error {
	_, closer, err := s.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	return errors.Join(err, closer.Close())
}

func (s pebbleDB) put(items []item) error {
	b := s.NewBatch()
	for _, it := range items {
		if err := b.Set(it.key, it.value, nil); err != nil {
			return err
		}
	}
	return b.Commit(pebble.Sync)
}

type badgerDB struct{ *badger.DB }

func openBadger(dir string) (store, error) {
	db, err := badger.Open(badger.DefaultOptions(dir).WithSyncWrites(true).WithLogger(nil))
	return badgerDB{db}, err
}

func (s badgerDB) read(key []byte) error {
	return s.View(func(tx *badger.Txn) error {
		_, err := tx.Get(key)
		if errors.Is(err, badger.ErrKeyNotFound) {
			err = nil
		}
		return err
	})
}

func (s badgerDB) put(items []item) error {
	return s.Update(func(tx *badger.Txn) error {
		for _, it := range items {
			if err := tx.Set(it.key, it.value); err != nil {
				return err
			}
		}
		return nil
	})
}
