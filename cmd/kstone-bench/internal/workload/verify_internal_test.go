package workload

import (
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/dataset"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/result"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
)

// faulty is a database that ignores writes of a record while it is broken.
type faulty struct {
	store.Store
	broken bool
	key    string
}

func (f *faulty) ignores(k store.Key) bool { return f.broken && string(k.Bytes) == f.key }

func (f *faulty) Put(k store.Key, value []byte) error {
	if f.ignores(k) {
		return nil
	}
	return f.Store.Put(k, value)
}

func (f *faulty) Delete(k store.Key) error {
	if f.ignores(k) {
		return nil
	}
	return f.Store.Delete(k)
}

// scanBefore scans from the record before the one that is written first.
func scanBefore(e *Env) (err error) {
	y, w := &ycsbRun{Env: e}, e.newWorker(0, "scan")
	for i := 0; i < 20 && err == nil; i++ {
		err = y.scan(w, e.order.At(0)-1)
	}
	return err
}

// TestLostWritesAreNoticed has a database ignore writes of a record, the first that is written or
// the first in order, in the second part of a chain.
func TestLostWritesAreNoticed(t *testing.T) {
	fill := []step{fresh, do(fillRandom, 1)}
	opened := func(again step) []step { return append(fill[:2:2], (*Env).close, again) }
	for name, c := range map[string]struct {
		before, after []step
		first         bool // in order
		want          string
	}{
		"a fill":       {nil, append(fill[:2:2], whole), false, "999 records are there"},
		"synced":       {nil, []step{do(fillSync, 1)}, false, "records are there"},
		"an opening":   {nil, opened(openClean), true, "record 0 is missing"},
		"a full log":   {nil, opened(openFullLog), false, "999 records"},
		"an overwrite": {fill, []step{do(overwrite, 1), do(deleteRandom, 1)}, false, "version 0"},
		"a short scan": {nil, append(fill[:2:2], scanBefore), false, "instead of"},
	} {
		inner, err := store.Find("goleveldb")
		if err != nil {
			t.Fatal(err)
		}
		e := &Env{Emit: func(result.Record) error { return nil }}
		e.Size = Size{Dir: t.TempDir(), Records: 1000, ValueBytes: 40, Seconds: 0.001,
			WriteBufferBytes: 1 << 20, CacheBytes: 1 << 20}
		e.prepare()
		db, id := &faulty{}, e.id(e.order.At(0))
		if c.first {
			id = 0
		}
		db.key = string(dataset.AppendKey(nil, id))
		e.engine.Open = func(o store.Config) (store.Store, error) {
			db.Store, err = inner.Open(o)
			return db, err
		}
		for i, s := range append(c.before[:len(c.before):len(c.before)], c.after...) {
			db.broken = i >= len(c.before)
			if err = s(e); err != nil {
				break
			}
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
		_ = e.close()
	}
}
