package ethdb_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	interfaces "github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/ethdb/dbtest"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/adapters/ethdb"
	"github.com/kstonedb/kstone/keycodec"
)

func open(t testing.TB, dir string) *ethdb.Store {
	db, err := engine.Open(dir, &engine.Options{InMemory: dir == "memory"})
	if err != nil {
		t.Fatal(err)
	}
	return ethdb.New(db)
}

// Promise (manners): engine/adapters/ethdb passes the test kit of go-ethereum's key-value stores.
func TestSuiteOfEthdb(t *testing.T) {
	dbtest.TestDatabaseSuite(t, func() interfaces.KeyValueStore { return open(t, "memory") })
}

// An iterator shows what was there when it was made, also if that is deleted meanwhile, and can be
// released twice. What is closed says so.
func TestSnapshotsAndClosing(t *testing.T) {
	s := open(t, t.TempDir())
	for i := range 600 {
		if err := s.Put(fmt.Appendf(nil, "k%03d", i), []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	it := s.NewIterator([]byte("k"), []byte("1"))
	if err := s.DeleteRange(nil, nil); err != nil {
		t.Fatal(err)
	}
	n := 0
	for last := []byte(nil); it.Next(); n++ {
		if bytes.Compare(last, it.Key()) >= 0 || string(it.Value()) != "v" {
			t.Fatalf("%q after %q: %q", it.Key(), last, it.Value())
		}
		last = bytes.Clone(it.Key())
	}
	if n != 500 || it.Error() != nil {
		t.Fatalf("%d keys, %v", n, it.Error())
	}
	it.Release()
	it.Release()
	if _, err := s.Get([]byte("k1")); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("a key that was deleted: %v", err)
	}
	if err := s.Put(make([]byte, 1<<17), nil); !errors.Is(err, engine.ErrTooLarge) &&
		!errors.Is(err, keycodec.ErrKeyTooLarge) {
		t.Errorf("a key of 128 KiB: %v", err)
	}
	if err := errors.Join(s.Compact(nil, nil), s.SyncKeyValue(), s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	it = s.NewIterator(nil, nil)
	if it.Next() || !errors.Is(it.Error(), engine.ErrClosed) {
		t.Errorf("an iterator after Close: %v", it.Error())
	}
	it.Release()
}

// What stands in the documents as the price of order: a lookup, and the first key of an iterator.
func BenchmarkStore(b *testing.B) {
	s := open(b, b.TempDir())
	defer s.Close()
	key := func(i int) []byte { return fmt.Appendf(nil, "%08x", uint32(i)*2654435761) }
	for i := range 200_000 {
		if err := s.Put(key(i), make([]byte, 100)); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("Get", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, err := s.Get(key(i % 200_000)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("IteratorFirst", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			it := s.NewIterator(nil, key(i%200_000))
			it.Next()
			it.Release()
		}
	})
}
