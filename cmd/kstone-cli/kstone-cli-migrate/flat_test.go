//go:build unix

package main_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	pebble1 "github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/v2"
	"github.com/dgraph-io/badger/v4"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/util"
)

// fill writes the pairs of a step to a flat store.
func fill(step string, put func(key, value []byte) error, remove func(key []byte) error) error {
	switch step {
	case "large":
		for i := range 20_000 {
			key := fmt.Appendf(nil, "user:%05d", i)
			if err := put(key, []byte(strings.Repeat("v", 100))); err != nil {
				return err
			}
		}
		return nil
	case "change":
		return errors.Join(put([]byte("user:1:name"), []byte("Ada L.")), remove([]byte("b")))
	case "odd": // a key that a database does not take, and one that it does not take without SK
		return errors.Join(put([]byte(strings.Repeat("k", 70_000)+":x"), []byte("v")),
			put([]byte{}, []byte("v")), put([]byte("large"), make([]byte, 16<<20)))
	}
	return errors.Join(put([]byte("user:1:name"), []byte("Ada")), put([]byte("user:2:name"), nil),
		put([]byte("b"), []byte("x")), put([]byte("\x00\xff:"), []byte("\x00")))
}

func makeLevelDB(path, step string) error {
	db, err := leveldb.OpenFile(path, nil)
	if err != nil {
		return err
	}
	err = fill(step, func(k, v []byte) error { return db.Put(k, v, nil) },
		func(k []byte) error { return db.Delete(k, nil) })
	if step == "large" { // into a table
		err = errors.Join(err, db.CompactRange(util.Range{}))
	}
	return errors.Join(err, db.Close())
}

func holdLevelDB(path string) (func() error, error) {
	db, err := leveldb.OpenFile(path, nil)
	return db.Close, err
}

func makePebble(path, step string) error {
	db, err := pebble.Open(path, &pebble.Options{Logger: quiet{}})
	if err != nil {
		return err
	}
	err = fill(step, func(k, v []byte) error { return db.Set(k, v, pebble.NoSync) },
		func(k []byte) error { return db.Delete(k, pebble.NoSync) })
	if step == "large" { // into a table
		err = errors.Join(err, db.Flush())
	}
	if step == "ranges" {
		err = errors.Join(db.RatchetFormatMajorVersion(pebble.FormatNewest),
			db.RangeKeySet([]byte("a"), []byte("c"), nil, []byte("v"), nil))
	}
	return errors.Join(err, db.Close())
}

// makePebble1 makes a store in the oldest format of Pebble 1, as programs of years ago have it.
func makePebble1(path, step string) error {
	db, err := pebble1.Open(path, &pebble1.Options{Logger: quiet{}})
	if err != nil {
		return err
	}
	err = fill(step, func(k, v []byte) error { return db.Set(k, v, pebble1.NoSync) },
		func(k []byte) error { return db.Delete(k, pebble1.NoSync) })
	return errors.Join(err, db.Close())
}

func holdPebble(path string) (func() error, error) {
	db, err := pebble.Open(path, &pebble.Options{Logger: quiet{}})
	return db.Close, err
}

type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func makeBadger(path, step string) error {
	o := badger.DefaultOptions(path).WithLogger(nil)
	if step == "secret" {
		o = o.WithEncryptionKey([]byte("0123456789abcdef")).WithIndexCacheSize(1 << 20)
	}
	db, err := badger.Open(o)
	if err != nil {
		return err
	}
	batch := db.NewWriteBatch()
	err = fill(step, func(k, v []byte) error {
		if len(k) > 60_000 || len(k) == 0 || len(v) > 1<<20 {
			return nil // Badger does not take it
		}
		return batch.Set(k, v)
	}, batch.Delete)
	if step == "small" {
		later, past := time.Hour*24*365, time.Nanosecond
		for _, e := range []*badger.Entry{badger.NewEntry([]byte("ttl"), nil).WithTTL(later),
			badger.NewEntry([]byte("gone"), nil).WithTTL(past),
			badger.NewEntry([]byte("meta"), nil).WithMeta(7),
			{Key: []byte("x"), ExpiresAt: math.MaxUint64}} {
			err = errors.Join(err, batch.SetEntry(e))
		}
	}
	return errors.Join(err, batch.Flush(), db.Close())
}

func holdBadger(path string) (func() error, error) {
	db, err := badger.Open(badger.DefaultOptions(path).WithLogger(nil))
	return db.Close, err
}
