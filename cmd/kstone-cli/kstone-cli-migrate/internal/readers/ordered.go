package readers

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/migrate"
)

// iterator is what LevelDB and both versions of Pebble iterate with.
type iterator interface {
	First() bool
	Next() bool
	Key() []byte
	Value() []byte
	Error() error
	Close() error
}

// ordered is a store of one ordered map.
type ordered struct {
	open  func() (iterator, error)
	left  func() []string // nil for none
	close func() error
}

// Buckets implements migrate.Pairs.
func (o *ordered) Buckets() bool { return false }

// All implements migrate.Pairs.
func (o *ordered) All(context.Context) iter.Seq2[migrate.Pair, error] {
	return func(yield func(migrate.Pair, error) bool) {
		it, err := o.open()
		if err != nil {
			yield(migrate.Pair{}, err)
			return
		}
		for ok := it.First(); ok; ok = it.Next() {
			if !yield(migrate.Pair{Key: it.Key(), Value: it.Value()}, nil) {
				_ = it.Close() // what was read is complete
				return
			}
		}
		if err := errors.Join(it.Error(), it.Close()); err != nil {
			yield(migrate.Pair{}, err)
		}
	}
}

// Left implements migrate.Pairs.
func (o *ordered) Left() []string {
	if o.left == nil {
		return nil
	}
	return o.left()
}

// Close implements migrate.Pairs.
func (o *ordered) Close() error { return o.close() }

// withLock runs an opener that makes a file LOCK if there is none, and returns what makes that go.
func withLock(dir string, open func() error) (restore func() error, err error) {
	name := filepath.Join(dir, "LOCK")
	restore = func() error { return nil }
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
		restore = func() error {
			err := os.Remove(name)
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			return err
		}
	}
	if err := open(); err != nil {
		return nil, errors.Join(err, restore())
	}
	return restore, nil
}

// directory returns an error if a source is not a directory of files that match a pattern. Why:
// some engines make an empty store where there is no store.
func directory(path, pattern string) error {
	found, err := filepath.Glob(filepath.Join(path, pattern))
	if err == nil && len(found) == 0 {
		err = errors.New("it has no file " + pattern + ", so it is not a store of this engine")
	}
	return err
}
