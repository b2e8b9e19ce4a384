package readers

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	pebble1 "github.com/cockroachdb/pebble"
	"github.com/cockroachdb/pebble/v2"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/migrate"
)

// silent drops what an engine would write to a log.
type silent struct{}

// Infof implements the loggers of Pebble and Badger.
func (silent) Infof(string, ...any) {}

// Errorf implements the loggers.
func (silent) Errorf(string, ...any) {}

// Fatalf implements the loggers of Pebble, which do not return from it.
func (silent) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// openPebble opens a directory of Pebble; one in a format that Pebble 2 has given up, with
// Pebble 1.
func openPebble(path string) (migrate.Pairs, error) {
	if err := directory(path, "MANIFEST-*"); err != nil {
		return nil, err
	}
	var o *ordered
	restore, err := withLock(path, func() (err error) {
		if o, err = pebble2(path); err != nil && tooOld(err) {
			o, err = pebbleOld(path)
		}
		return err
	})
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EACCES):
		return nil, migrate.ErrBusy
	case err != nil:
		return nil, err
	}
	closeDB := o.close
	o.close = func() error { return errors.Join(closeDB(), restore()) }
	return o, nil
}

func tooOld(err error) bool {
	text := err.Error()
	return strings.Contains(text, "format") && strings.Contains(text, "version")
}

func pebble2(path string) (*ordered, error) {
	db, err := pebble.Open(path, &pebble.Options{ReadOnly: true, ErrorIfNotExists: true,
		Logger: silent{}})
	if err != nil {
		return nil, err
	}
	snap := db.NewSnapshot()
	return &ordered{
		open: func() (iterator, error) { return snap.NewIter(nil) },
		left: func() []string {
			it, err := snap.NewIter(&pebble.IterOptions{KeyTypes: pebble.IterKeyTypeRangesOnly})
			return rangeKeys(it, err)
		},
		close: func() error { return errors.Join(snap.Close(), db.Close()) },
	}, nil
}

func pebbleOld(path string) (*ordered, error) {
	db, err := pebble1.Open(path, &pebble1.Options{ReadOnly: true, ErrorIfNotExists: true,
		Logger: silent{}})
	if err != nil {
		return nil, err
	}
	snap := db.NewSnapshot()
	return &ordered{
		open: func() (iterator, error) { return snap.NewIter(nil) },
		left: func() []string {
			if db.FormatMajorVersion() < pebble1.FormatRangeKeys {
				return nil
			}
			it, err := snap.NewIter(&pebble1.IterOptions{KeyTypes: pebble1.IterKeyTypeRangesOnly})
			return rangeKeys(it, err)
		},
		close: func() error { return errors.Join(snap.Close(), db.Close()) },
	}, nil
}

// rangeKeys says how many range keys there are.
func rangeKeys(it iterator, err error) []string {
	n := 0
	if err == nil {
		for ok := it.First(); ok; ok = it.Next() {
			n++
		}
		err = errors.Join(it.Error(), it.Close())
	}
	switch {
	case err != nil:
		return []string{"range keys, which cannot be read: " + err.Error()}
	case n > 0:
		return []string{fmt.Sprintf("range keys, of %d ranges", n)}
	}
	return nil
}
