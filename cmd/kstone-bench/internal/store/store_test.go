package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
)

const split = 4 // bytes of the partition key

func key(s string) store.Key { return store.Key{Bytes: []byte(s), PK: split} }

// each runs a test on every engine that is compiled in, but for the harness.
func each(t *testing.T, f func(t *testing.T, s store.Store)) {
	for _, name := range store.Names() {
		t.Run(name, func(t *testing.T) {
			e, err := store.Find(name)
			if err != nil {
				t.Fatal(err)
			}
			if e.Void {
				t.Skip("keeps nothing")
			}
			s, err := e.Open(store.Config{
				Dir: t.TempDir(), Writers: 1, WriteBufferBytes: 8 << 20, CacheBytes: 8 << 20,
			})
			if err != nil {
				t.Fatal(err)
			}
			f(t, s)
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// fill puts partitions p000 to p009 of sort keys 0 to 9; a value repeats its key.
func fill(t *testing.T, s store.Store) {
	t.Helper()
	var keys []store.Key
	var values [][]byte
	for i := range 100 {
		k := fmt.Sprintf("p%03d%d", i/10, i%10)
		keys, values = append(keys, key(k)), append(values, bytes.Repeat([]byte(k), 30))
	}
	if err := s.PutBatch(keys[:50], values[:50]); err != nil {
		t.Fatal(err)
	}
	for i := 50; i < 100; i++ {
		if err := s.Put(keys[i], values[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// collector returns a callback that collects keys and checks values.
func collector(t *testing.T, out *[]string) func(store.Row) bool {
	return func(r store.Row) bool {
		k := string(r.PK) + string(r.SK)
		if !bytes.Equal(r.Value, bytes.Repeat([]byte(k), 30)) {
			t.Errorf("%s has the value %.10q", k, r.Value)
		}
		*out = append(*out, k)
		return true
	}
}

func TestGetPutDelete(t *testing.T) {
	each(t, func(t *testing.T, s store.Store) {
		fill(t, s)
		for range 2 { // in memory, and as far as there are files, in files
			v, ok, err := s.Get([]byte{}, key("p0042"))
			if err != nil || !ok || !bytes.Equal(v, bytes.Repeat([]byte("p0042"), 30)) {
				t.Errorf("Get = %.20q, %v, %v", v, ok, err)
			}
			if _, ok, err := s.Get(nil, key("p004x")); ok || err != nil {
				t.Errorf("Get of an absent key = %v, %v", ok, err)
			}
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Delete(key("p0042")); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := s.Get(nil, key("p0042")); ok || err != nil {
			t.Errorf("Get of a deleted key = %v, %v", ok, err)
		}
		got := map[int]string{}
		err := s.MultiGet([]store.Key{key("p0001"), key("p0042"), key("p0099")},
			func(i int, v []byte) { got[i] = string(v[:min(5, len(v))]) })
		if want := "map[0:p0001 1: 2:p0099]"; err != nil || fmt.Sprint(got) != want {
			t.Errorf("MultiGet = %v, %v; want %s", got, err, want)
		}
	})
}

func TestPutIfAbsent(t *testing.T) {
	each(t, func(t *testing.T, s store.Store) {
		var wins sync.Map
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for i := range 50 {
					ok, err := s.PutIfAbsent(key(fmt.Sprintf("p%03d0", i)), []byte{byte(g)})
					if err != nil {
						t.Error(err)
					}
					if ok {
						if _, twice := wins.LoadOrStore(i, g); twice {
							t.Errorf("key %d was inserted twice", i)
						}
					}
				}
			})
		}
		wg.Wait()
		for i := range 50 {
			v, ok, err := s.Get(nil, key(fmt.Sprintf("p%03d0", i)))
			g, _ := wins.Load(i)
			if err != nil || !ok || len(v) != 1 || int(v[0]) != g {
				t.Errorf("key %d: %v, %v, %v; inserted by %v", i, v, ok, err, g)
			}
		}
	})
}

func TestQuery(t *testing.T) {
	each(t, func(t *testing.T, s store.Store) {
		fill(t, s)
		for _, c := range []struct {
			q    store.Query
			want string
		}{
			{store.Query{PK: []byte("p003"), Limit: 2}, "[p0030 p0031]"},
			{store.Query{PK: []byte("p003"), From: []byte("8"), Limit: 9}, "[p0038 p0039]"},
			{store.Query{PK: []byte("p003"), Limit: 2, Reverse: true}, "[p0039 p0038]"},
			{store.Query{PK: []byte("p009"), Limit: 1, Reverse: true}, "[p0099]"},
			{store.Query{PK: []byte("p010"), Limit: 5}, "[]"},
			{store.Query{PK: []byte("p00a"), Limit: 5, Reverse: true}, "[]"},
		} {
			var got []string
			if err := s.Query(c.q, collector(t, &got)); err != nil || fmt.Sprint(got) != c.want {
				t.Errorf("%+v: %v, %v; want %s", c.q, got, err, c.want)
			}
		}
	})
}

func TestScan(t *testing.T) {
	each(t, func(t *testing.T, s store.Store) {
		fill(t, s)
		var all, some, parts []string
		if err := s.Scan(store.Key{}, 0, collector(t, &all)); err != nil {
			t.Fatal(err)
		}
		if len(all) != 100 || !slices.IsSorted(all) {
			t.Errorf("Scan returned %d keys: %v", len(all), all)
		}
		if err := s.Scan(key("p0058"), 3, collector(t, &some)); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(some) != "[p0058 p0059 p0060]" {
			t.Errorf("Scan from p0058 = %v", some)
		}
		mid := []byte("p0050")
		for _, p := range []store.Part{{Count: 2, Hi: mid}, {Index: 1, Count: 2, Lo: mid}} {
			if err := s.ScanPart(p, collector(t, &parts)); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(parts)
		if !slices.Equal(parts, all) {
			t.Errorf("the parts have %d keys: %v", len(parts), parts)
		}
	})
}

// TestCallsIntoC: an engine in C pays for a call, not for each row or key.
func TestCallsIntoC(t *testing.T) {
	each(t, func(t *testing.T, s store.Store) {
		fill(t, s)
		n, before := 0, runtime.NumCgoCall()
		row := func(store.Row) bool { n++; return true }
		err := errors.Join(s.Query(store.Query{PK: []byte("p003"), Limit: 10}, row),
			s.Scan(store.Key{}, 50, row),
			s.MultiGet([]store.Key{key("p0001"), key("p0002")}, func(int, []byte) { n++ }))
		if calls := runtime.NumCgoCall() - before; err != nil || n != 62 || calls > 24 {
			t.Errorf("%d rows and values by %d calls, %v", n, calls, err)
		}
	})
}
