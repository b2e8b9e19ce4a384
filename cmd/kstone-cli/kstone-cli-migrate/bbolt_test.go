//go:build unix

package main_test

import (
	"bytes"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// makeBbolt makes a file of bbolt, or changes it.
func makeBbolt(path, step string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		users, err := tx.CreateBucketIfNotExists([]byte("users"))
		if err != nil {
			return err
		}
		put := func(b *bbolt.Bucket, key string, value []byte) {
			err = errors.Join(err, b.Put([]byte(key), value))
		}
		switch step {
		case "large":
			for i := range 20_000 {
				put(users, fmt.Sprintf("user:%05d", i), bytes.Repeat([]byte{byte(i)}, 100))
			}
		case "small":
			put(users, "1:name", []byte("Ada"))
			put(users, "1:mail", []byte("ada@example.org"))
			put(users, "2", nil)
			nested, e := users.CreateBucket([]byte("a/b"))
			if e != nil {
				return e
			}
			put(nested, "k", []byte("nested"))
			put(nested, "\x00\xff", bytes.Repeat([]byte("v"), 16<<20))
			if _, e = tx.CreateBucket([]byte("none")); e != nil {
				return e
			}
			err = errors.Join(err, users.SetSequence(7))
		case "change":
			put(users, "1:name", []byte("Ada L."))
			err = errors.Join(err, users.Delete([]byte("2")))
		}
		return err
	})
	return errors.Join(err, db.Close())
}

func holdBbolt(path string) (func() error, error) {
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		return nil, err
	}
	return db.Close, nil
}
