//go:build cgo && lmdb

package store

/*
#cgo LDFLAGS: -llmdb
#cgo noescape ks_write
#cgo nocallback ks_write
#cgo noescape ks_get
#cgo nocallback ks_get
#cgo noescape ks_multi
#cgo nocallback ks_multi
#cgo noescape ks_seek
#cgo nocallback ks_seek
#cgo noescape ks_rows
#cgo nocallback ks_rows
#include <lmdb.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// ks_write does all operations of a packed buffer in one transaction: kind 0 puts, 1
// puts what is absent, 2 deletes.
static int ks_write(MDB_env *env, MDB_dbi dbi, const char *p, size_t n, int kind) {
	MDB_txn *txn;
	const char *end = p + n;
	int rc = mdb_txn_begin(env, NULL, 0, &txn);
	if (rc) return rc;
	while (p < end) {
		uint32_t len[2];
		memcpy(len, p, 8);
		MDB_val k = {len[0], (void *)(p + 8)}, v = {len[1], (void *)(p + 8 + len[0])};
		p += 8 + (size_t)len[0] + len[1];
		if (kind == 2) {
			rc = mdb_del(txn, dbi, &k, NULL);
			if (rc == MDB_NOTFOUND) rc = 0;
		} else {
			rc = mdb_put(txn, dbi, &k, &v, kind == 1 ? MDB_NOOVERWRITE : 0);
		}
		if (rc) {
			mdb_txn_abort(txn);
			return rc;
		}
	}
	return mdb_txn_commit(txn);
}

enum { KS_MOST = 64 };

// A ks_reader is what one goroutine reads with: a transaction, at rest between two calls, a
// cursor of it, and room for what a call finds.
typedef struct {
	MDB_txn *txn;
	MDB_cursor *cursor;
	int n; // rows found
	MDB_val keys[KS_MOST], vals[KS_MOST];
} ks_reader;

static int ks_reader_open(MDB_env *env, MDB_dbi dbi, ks_reader *r) {
	int rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &r->txn);
	if (rc) return rc;
	rc = mdb_cursor_open(r->txn, dbi, &r->cursor);
	mdb_txn_reset(r->txn);
	return rc;
}

static void ks_reader_close(ks_reader *r) {
	if (r->cursor) mdb_cursor_close(r->cursor);
	if (r->txn) mdb_txn_abort(r->txn);
	free(r);
}

// ks_get copies the value of k to dst, which has cap free bytes; *n is its length.
static int ks_get(ks_reader *r, MDB_dbi dbi, const void *key, size_t len, void *dst, size_t cap,
		size_t *n) {
	MDB_val k = {len, (void *)key}, v;
	int rc = mdb_txn_renew(r->txn);
	if (rc) return rc;
	rc = mdb_get(r->txn, dbi, &k, &v);
	if (rc == 0) {
		*n = v.mv_size;
		if (v.mv_size <= cap) memcpy(dst, v.mv_data, v.mv_size);
	}
	mdb_txn_reset(r->txn);
	return rc;
}

// ks_multi finds the values of the n keys of a packed buffer. The transaction stays open.
static int ks_multi(ks_reader *r, MDB_dbi dbi, const char *p, int n) {
	int rc = mdb_txn_renew(r->txn);
	for (r->n = 0; rc == 0 && r->n < n; r->n++) {
		uint32_t len;
		memcpy(&len, p, 4);
		MDB_val k = {len, (void *)(p + 8)}, *v = &r->vals[r->n];
		p += 8 + len;
		rc = mdb_get(r->txn, dbi, &k, v);
		if (rc == MDB_NOTFOUND) {
			*v = (MDB_val){0, NULL};
			rc = 0;
		}
	}
	return rc;
}

// ks_rows finds the next rows, at most so many. After the last of all there are none.
static int ks_rows(ks_reader *r, MDB_cursor_op op, MDB_cursor_op next, int most) {
	int rc = 0;
	for (r->n = 0; r->n < most; r->n++, op = next) {
		rc = mdb_cursor_get(r->cursor, &r->keys[r->n], &r->vals[r->n], op);
		if (rc) break;
	}
	return rc == MDB_NOTFOUND ? 0 : rc;
}

// ks_seek finds the first rows from a key on or, backward, the last below it; without a key the
// first or last of all. The transaction stays open.
static int ks_seek(ks_reader *r, const void *key, size_t len, int back, int most) {
	MDB_val k = {len, (void *)key}, v;
	MDB_cursor_op next = back ? MDB_PREV : MDB_NEXT, end = back ? MDB_LAST : MDB_FIRST;
	int rc = mdb_txn_renew(r->txn);
	if (rc == 0) rc = mdb_cursor_renew(r->txn, r->cursor);
	r->n = 0;
	if (rc) return rc;
	if (len == 0) return ks_rows(r, end, next, most);
	rc = mdb_cursor_get(r->cursor, &k, &v, MDB_SET_RANGE);
	if (back) return ks_rows(r, rc == MDB_NOTFOUND ? end : next, next, most);
	if (rc) return rc == MDB_NOTFOUND ? 0 : rc;
	return ks_rows(r, MDB_GET_CURRENT, next, most);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"unsafe"
)

// Configuration: read transactions and cursors that are not bound to threads and are reused, no
// zeroing of pages. Unsynced means NOSYNC with WRITEMAP, its fastest mode that a kill
// of the process does no harm to; synced is the default, without the writable map. A
// write is one C call, a read one; 64 rows of an iteration are one, and so are 64 keys.
func init() {
	register(6, Engine{
		Name: "lmdb",
		Version: func() string {
			return fmt.Sprintf("%d.%d.%d", C.MDB_VERSION_MAJOR, C.MDB_VERSION_MINOR,
				C.MDB_VERSION_PATCH)
		},
		Unsynced: SurvivesKill,
		Open:     openLMDB,
	})
}

type lmdbStore struct {
	ordered
	env *C.MDB_env
	dbi C.MDB_dbi

	readers sync.Pool // of *lmdbReader: reads share no lock
	mu      sync.Mutex
	all     []*C.ks_reader // guarded by mu, as is free
	free    []*C.ks_reader // those that the pool has dropped
}

// lmdbReader is a reader at rest, or an error.
type lmdbReader struct {
	c   *C.ks_reader
	err error
}

func lmdbError(rc C.int) error {
	if rc == 0 {
		return nil
	}
	return errors.New("lmdb: " + C.GoString(C.mdb_strerror(rc)))
}

func openLMDB(c Config) (Store, error) {
	s := &lmdbStore{}
	s.of, s.readers.New = s, func() any { return s.newReader() }
	if rc := C.mdb_env_create(&s.env); rc != 0 {
		return nil, lmdbError(rc)
	}
	C.mdb_env_set_maxreaders(s.env, 512)
	C.mdb_env_set_mapsize(s.env, C.size_t(max(4<<30, 6*c.DataBytes)))
	flags := C.uint(C.MDB_NOTLS | C.MDB_NOMEMINIT | C.MDB_NORDAHEAD)
	if !c.Sync {
		flags |= C.MDB_NOSYNC | C.MDB_WRITEMAP
	}
	dir := C.CString(c.Dir)
	defer C.free(unsafe.Pointer(dir))
	if rc := C.mdb_env_open(s.env, dir, flags, 0o644); rc != 0 {
		C.mdb_env_close(s.env)
		return nil, lmdbError(rc)
	}
	var txn *C.MDB_txn
	if rc := C.mdb_txn_begin(s.env, nil, 0, &txn); rc != 0 {
		return nil, lmdbError(rc)
	}
	if rc := C.mdb_dbi_open(txn, nil, 0, &s.dbi); rc != 0 {
		return nil, lmdbError(rc)
	}
	return s, lmdbError(C.mdb_txn_commit(txn))
}

const (
	lmdbPut = iota
	lmdbPutAbsent
	lmdbDelete
)

func (s *lmdbStore) write(keys []Key, values [][]byte, kind C.int) C.int {
	p := packPool.Get().(*[]byte)
	defer packPool.Put(p)
	*p = pack((*p)[:0], keys, values)
	b := *p
	return C.ks_write(s.env, s.dbi, (*C.char)(unsafe.Pointer(&b[0])), C.size_t(len(b)), kind)
}

func (s *lmdbStore) one(k Key, value []byte, kind C.int) C.int {
	keys, values := [1]Key{k}, [1][]byte{value}
	return s.write(keys[:], values[:], kind)
}

func (s *lmdbStore) Put(k Key, value []byte) error { return lmdbError(s.one(k, value, lmdbPut)) }
func (s *lmdbStore) Delete(k Key) error            { return lmdbError(s.one(k, nil, lmdbDelete)) }

func (s *lmdbStore) PutBatch(keys []Key, values [][]byte) error {
	return lmdbError(s.write(keys, values, lmdbPut))
}

func (s *lmdbStore) PutIfAbsent(k Key, value []byte) (bool, error) {
	rc := s.one(k, value, lmdbPutAbsent)
	if rc == C.MDB_KEYEXIST {
		return false, nil
	}
	return rc == 0, lmdbError(rc)
}

// newReader returns one that the pool has dropped, which keeps a slot in the table of readers, or a
// new one.
func (s *lmdbStore) newReader() *lmdbReader {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &lmdbReader{}
	if n := len(s.free); n > 0 {
		r.c, s.free = s.free[n-1], s.free[:n-1]
	} else {
		r.c = (*C.ks_reader)(C.calloc(1, C.sizeof_ks_reader))
		r.err = lmdbError(C.ks_reader_open(s.env, s.dbi, r.c))
		s.all = append(s.all, r.c)
	}
	runtime.AddCleanup(r, func(dropped *C.ks_reader) {
		s.mu.Lock()
		s.free = append(s.free, dropped)
		s.mu.Unlock()
	}, r.c)
	return r
}

func (s *lmdbStore) Get(dst []byte, k Key) ([]byte, bool, error) {
	r := s.readers.Get().(*lmdbReader)
	defer s.readers.Put(r)
	for r.err == nil {
		if cap(dst)-len(dst) < 64 {
			dst = append(dst, make([]byte, 64)...)[:len(dst)]
		}
		at, free := len(dst), cap(dst)-len(dst)
		var n C.size_t
		rc := C.ks_get(r.c, s.dbi, unsafe.Pointer(&k.Bytes[0]), C.size_t(len(k.Bytes)),
			unsafe.Pointer(&dst[:at+1][at]), C.size_t(free), &n)
		switch {
		case rc == C.MDB_NOTFOUND:
			return dst, false, nil
		case rc != 0:
			return dst, false, lmdbError(rc)
		case int(n) <= free:
			return dst[:at+int(n)], true, nil
		}
		dst = append(dst, make([]byte, n)...)[:at]
	}
	return dst, false, r.err
}

// view is the memory that v describes; the map stays while the transaction lives.
func view(v C.MDB_val) []byte { return unsafe.Slice((*byte)(v.mv_data), int(v.mv_size)) }

// reading calls f with a reader whose transaction f opens.
func (s *lmdbStore) reading(f func(*C.ks_reader) error) error {
	r := s.readers.Get().(*lmdbReader)
	defer s.readers.Put(r)
	if r.err != nil {
		return r.err
	}
	defer C.mdb_txn_reset(r.c.txn)
	return f(r.c)
}

// MultiGet looks 64 keys up in one transaction.
func (s *lmdbStore) MultiGet(keys []Key, each func(int, []byte)) error {
	p := packPool.Get().(*[]byte)
	defer packPool.Put(p)
	for at := 0; at < len(keys); at += C.KS_MOST {
		part := keys[at:min(at+C.KS_MOST, len(keys))]
		*p = pack((*p)[:0], part, nil)
		err := s.reading(func(r *C.ks_reader) error {
			b := *p
			rc := C.ks_multi(r, s.dbi, (*C.char)(unsafe.Pointer(&b[0])), C.int(len(part)))
			for i := range int(r.n) {
				each(at+i, view(r.vals[i]))
			}
			return lmdbError(rc)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *lmdbStore) iterate(p span, each func(Row) bool) error {
	start, next, back := p.lo, C.MDB_cursor_op(C.MDB_NEXT), C.int(0)
	if p.reverse {
		start, next, back = p.hi, C.MDB_PREV, 1
	}
	left := p.limit
	if left == 0 {
		left = math.MaxInt
	}
	return s.reading(func(r *C.ks_reader) error {
		rc := C.ks_seek(r, unsafe.Pointer(unsafe.SliceData(start)), C.size_t(len(start)), back,
			C.int(min(left, C.KS_MOST)))
		for rc == 0 && r.n > 0 {
			for i := range int(r.n) {
				k := view(r.keys[i])
				if p.beyond(k) || !each(Row{PK: k, Value: view(r.vals[i])}) {
					return nil
				}
			}
			if left -= int(r.n); left == 0 {
				return nil
			}
			rc = C.ks_rows(r, next, next, C.int(min(left, C.KS_MOST)))
		}
		return lmdbError(rc)
	})
}

func (s *lmdbStore) Close() error {
	for _, r := range s.all {
		C.ks_reader_close(r)
	}
	C.mdb_env_close(s.env)
	return nil
}
