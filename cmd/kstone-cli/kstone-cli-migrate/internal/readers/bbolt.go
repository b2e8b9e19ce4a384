package readers

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/migrate"
)

// lockTime is how long the lock of a file may be held by another process.
const lockTime = time.Second

// boltFile is a file of bbolt in one read transaction.
type boltFile struct {
	db   *bbolt.DB
	tx   *bbolt.Tx
	left map[string]bool
}

// openBbolt opens a file with a shared lock, so that no process writes it meanwhile.
func openBbolt(path string) (migrate.Pairs, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("a file of bbolt is not a directory")
	}
	db, err := bbolt.Open(path, 0, &bbolt.Options{ReadOnly: true, Timeout: lockTime})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, migrate.ErrBusy
	case err != nil:
		return nil, err
	}
	tx, err := db.Begin(false)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	b := &boltFile{db: db, tx: tx, left: map[string]bool{}}
	if want := tx.Size(); want > info.Size() {
		err := fmt.Errorf("the file is cut off: it has %d bytes of %d", info.Size(), want)
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Buckets implements migrate.Pairs.
func (b *boltFile) Buckets() bool { return true }

// All implements migrate.Pairs.
func (b *boltFile) All(context.Context) iter.Seq2[migrate.Pair, error] {
	return func(yield func(migrate.Pair, error) bool) {
		c := b.tx.Cursor()
		for name, v := c.First(); name != nil; name, v = c.Next() {
			if v == nil && !b.bucket(b.tx.Bucket(name), [][]byte{name}, yield) {
				return
			}
		}
	}
}

// bucket reads a bucket and those inside of it.
func (b *boltFile) bucket(bucket *bbolt.Bucket, path [][]byte,
	yield func(migrate.Pair, error) bool) bool {
	name := migrate.BucketPath(path...)
	if n := bucket.Sequence(); n > 0 {
		b.left[fmt.Sprintf("the sequence %d of the bucket %q", n, name)] = true
	}
	empty := true
	c := bucket.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		empty = false
		if v == nil {
			if !b.bucket(bucket.Bucket(k), append(slices.Clone(path), k), yield) {
				return false
			}
			continue
		}
		if !yield(migrate.Pair{Bucket: name, Key: k, Value: v}, nil) {
			return false
		}
	}
	if empty {
		b.left[fmt.Sprintf("the empty bucket %q", name)] = true
	}
	return true
}

// Left implements migrate.Pairs.
func (b *boltFile) Left() []string { return sorted(b.left) }

// Close implements migrate.Pairs.
func (b *boltFile) Close() error { return errors.Join(b.tx.Rollback(), b.db.Close()) }
