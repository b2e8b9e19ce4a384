package readers

import (
	"errors"
	"syscall"

	"github.com/syndtr/goleveldb/leveldb"
	leveliterator "github.com/syndtr/goleveldb/leveldb/iterator"
	"github.com/syndtr/goleveldb/leveldb/opt"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/migrate"
)

// levelIterator is an iterator of goleveldb.
type levelIterator struct{ leveliterator.Iterator }

// Close implements iterator.
func (l levelIterator) Close() error {
	l.Release()
	return nil
}

// openLevelDB opens a directory of LevelDB in any language, with a shared lock.
func openLevelDB(path string) (migrate.Pairs, error) {
	if err := directory(path, "CURRENT"); err != nil {
		return nil, err
	}
	if lockedByOther(path) {
		return nil, migrate.ErrBusy
	}
	var db *leveldb.DB
	restore, err := withLock(path, func() (err error) {
		db, err = leveldb.OpenFile(path, &opt.Options{ReadOnly: true, ErrorIfMissing: true,
			Strict: opt.DefaultStrict | opt.StrictReader})
		return err
	})
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return nil, migrate.ErrBusy
	case err != nil:
		return nil, err
	}
	return &ordered{
		open: func() (iterator, error) {
			return levelIterator{db.NewIterator(nil, nil)}, nil
		},
		close: func() error { return errors.Join(db.Close(), restore()) },
	}, nil
}
