package readers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/cli"
	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/migrate"
)

// badgerDir is a directory of Badger in one read transaction.
type badgerDir struct {
	db    *badger.DB
	tx    *badger.Txn
	metas int64
}

// openBadger opens a directory of Badger with a shared lock.
func openBadger(path string) (migrate.Pairs, error) {
	if err := directory(path, "MANIFEST"); err != nil {
		return nil, err
	}
	if err := errors.Join(badgerTables(path), unlisted(path)); err != nil {
		return nil, err
	}
	o := badger.DefaultOptions(path).WithReadOnly(true).WithLogger(nil).WithMetricsEnabled(false).
		WithVerifyValueChecksum(true)
	db, err := badger.Open(o)
	if err != nil {
		return nil, badgerError(err)
	}
	// Why all at once: over a damaged block an iterator of Badger ends as if there were no more.
	if err := db.VerifyChecksum(); err != nil {
		return nil, errors.Join(fmt.Errorf("a table is damaged: %w", err), db.Close())
	}
	return &badgerDir{db: db, tx: db.NewTransaction(false)}, nil
}

// unlisted returns an error if a table is not in the manifest, as after a crash, or if that is cut
// off. Why: Badger removes such a table, also when it opens a store only to read it.
func unlisted(path string) (err error) {
	f, err := os.Open(filepath.Join(path, badger.ManifestFilename))
	if err != nil {
		return err
	}
	defer f.Close()
	m, _, err := badger.ReplayManifestFile(f, 0, badger.DefaultOptions(path))
	if err != nil {
		return err
	}
	listed := map[string]bool{}
	for id := range m.Tables {
		listed[fmt.Sprintf("%06d.sst", id)] = true
	}
	found, err := filepath.Glob(filepath.Join(path, "*.sst"))
	for _, name := range found {
		if !listed[filepath.Base(name)] {
			err := fmt.Errorf("%s is not in the manifest: it is damaged, or a crash left it", name)
			return cli.Advise(err, "open and close a copy with its program, and migrate that")
		}
	}
	return err
}

// maxChecksum bounds the checksum at the end of a table of Badger, in bytes.
const maxChecksum = 64

// badgerTables looks at the end of each table: index, its length, checksum, its length. Why: Badger
// ends the program over a table that is cut off, in a goroutine of its own.
func badgerTables(path string) error {
	found, err := filepath.Glob(filepath.Join(path, "*.sst"))
	for _, name := range found {
		if err := badgerTable(name); err != nil {
			return fmt.Errorf("%s is cut off or damaged: %w", name, err)
		}
	}
	return err
}

func badgerTable(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	end, lengths := info.Size(), [2]int64{} // of the checksum, and of the index before it
	for i := range lengths {
		var b [4]byte
		if _, err := f.ReadAt(b[:], end-4); err != nil {
			return err
		}
		lengths[i] = int64(binary.BigEndian.Uint32(b[:]))
		if end -= 4 + lengths[i]; end < 4*int64(1-i) {
			return errors.New("it ends in the middle")
		}
	}
	if lengths[0] > maxChecksum {
		return errors.New("it has no checksum")
	}
	return nil
}

// badgerError adds to an error of Badger what to do.
func badgerError(err error) error {
	switch text := err.Error(); {
	case strings.Contains(text, "directory lock"):
		return fmt.Errorf("%w: %w", migrate.ErrBusy, err)
	case errors.Is(err, badger.ErrEncryptionKeyMismatch), strings.Contains(text, "Encryption"):
		return cli.Advise(err, "it is encrypted: write a copy without encryption with badger's "+
			"backup and restore")
	case errors.Is(err, badger.ErrTruncateNeeded), strings.Contains(text, "properly closed"):
		return cli.Advise(err, "its last program did not close it: open and close it once with "+
			"that program, or migrate a copy")
	}
	return err
}

// Buckets implements migrate.Pairs.
func (b *badgerDir) Buckets() bool { return false }

// All implements migrate.Pairs.
func (b *badgerDir) All(context.Context) iter.Seq2[migrate.Pair, error] {
	return func(yield func(migrate.Pair, error) bool) {
		it := b.tx.NewIterator(badger.DefaultIteratorOptions)
		defer it.Close()
		var value []byte
		b.metas = 0
		for it.Rewind(); it.Valid(); it.Next() {
			item := it.Item()
			var err error
			value, err = item.ValueCopy(value)
			if item.UserMeta() != 0 {
				b.metas++
			}
			p := migrate.Pair{Key: item.Key(), Value: value}
			if at := item.ExpiresAt(); at <= math.MaxInt64/1000 { // or else never
				p.Expiry = int64(at) * 1000
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// Left implements migrate.Pairs.
func (b *badgerDir) Left() []string {
	if b.metas == 0 {
		return nil
	}
	return []string{fmt.Sprintf("the user meta bytes, of %d pairs", b.metas)}
}

// Close implements migrate.Pairs.
func (b *badgerDir) Close() error {
	b.tx.Discard()
	return b.db.Close()
}
