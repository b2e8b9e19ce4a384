//go:build cgo && lmdb

package store

/*
#cgo LDFLAGS: -llmdb
#cgo noescape ks_write
#cgo nocallback ks_write
#cgo noescape ks_get
#cgo nocallback ks_get
#cgo noescape ks_seek
#cgo nocallback ks_seek
#cgo noescape ks_step
#cgo nocallback ks_step
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

// ks_get copies the value of k to dst, which has cap free bytes, in a renewed and
// then reset transaction; *n is its length.
static int ks_get(MDB_txn *txn, MDB_dbi dbi, const void *key, size_t len, void *dst,
		size_t cap, size_t *n) {
	MDB_val k = {len, (void *)key}, v;
	int rc = mdb_txn_renew(txn);
	if (rc) return rc;
	rc = mdb_get(txn, dbi, &k, &v);
	if (rc == 0) {
		*n = v.mv_size;
		if (v.mv_size <= cap) memcpy(dst, v.mv_data, v.mv_size);
	}
	mdb_txn_reset(txn);
	return rc;
}

static int ks_seek(MDB_cursor *c, const void *key, size_t len, MDB_val *kv, MDB_cursor_op op) {
	MDB_val k = {len, (void *)key}; // not in kv: C must not keep a pointer into Go memory
	int rc = mdb_cursor_get(c, &k, &kv[1], op);
	if (rc == 0) kv[0] = k;
	return rc;
}

static int ks_step(MDB_cursor *c, MDB_val *kv, MDB_cursor_op op) {
	return mdb_cursor_get(c, &kv[0], &kv[1], op);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

// Configuration: read transactions that are not bound to threads and are reused, no
// zeroing of pages. Unsynced means NOSYNC with WRITEMAP, its fastest mode that a kill
// of the process does no harm to; synced is the default, without the writable map. A
// write is one C call, a read one, a row of an iteration one.
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

	mu   sync.Mutex
	free []*C.MDB_txn // read transactions at rest; guarded by mu
}

func lmdbError(rc C.int) error {
	if rc == 0 {
		return nil
	}
	return errors.New("lmdb: " + C.GoString(C.mdb_strerror(rc)))
}

func openLMDB(c Config) (Store, error) {
	s := &lmdbStore{}
	s.of = s
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

// reader takes a read transaction that is reset.
func (s *lmdbStore) reader() (*C.MDB_txn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		txn := s.free[n-1]
		s.free = s.free[:n-1]
		return txn, nil
	}
	var txn *C.MDB_txn
	if rc := C.mdb_txn_begin(s.env, nil, C.MDB_RDONLY, &txn); rc != 0 {
		return nil, lmdbError(rc)
	}
	C.mdb_txn_reset(txn)
	return txn, nil
}

func (s *lmdbStore) release(txn *C.MDB_txn) {
	s.mu.Lock()
	s.free = append(s.free, txn)
	s.mu.Unlock()
}

func (s *lmdbStore) Get(dst []byte, k Key) ([]byte, bool, error) {
	txn, err := s.reader()
	if err != nil {
		return dst, false, err
	}
	defer s.release(txn)
	for {
		if cap(dst)-len(dst) < 64 {
			dst = append(dst, make([]byte, 64)...)[:len(dst)]
		}
		at, free := len(dst), cap(dst)-len(dst)
		var n C.size_t
		rc := C.ks_get(txn, s.dbi, unsafe.Pointer(&k.Bytes[0]), C.size_t(len(k.Bytes)),
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
}

// MultiGet looks the keys up in one transaction, with a cursor that walks back to the
// root for each, as random keys make it do.
func (s *lmdbStore) MultiGet(keys []Key, each func(int, []byte)) error {
	return s.cursor(func(c *C.MDB_cursor, kv *[2]C.MDB_val) error {
		for i, k := range keys {
			rc := C.ks_seek(c, unsafe.Pointer(&k.Bytes[0]), C.size_t(len(k.Bytes)), &kv[0],
				C.MDB_SET_KEY)
			switch rc {
			case 0:
				each(i, view(kv[1]))
			case C.MDB_NOTFOUND:
				each(i, nil)
			default:
				return lmdbError(rc)
			}
		}
		return nil
	})
}

// view is the memory that v describes; the map stays while the transaction lives.
func view(v C.MDB_val) []byte { return unsafe.Slice((*byte)(v.mv_data), int(v.mv_size)) }

// cursor calls f with a cursor in a read transaction.
func (s *lmdbStore) cursor(f func(*C.MDB_cursor, *[2]C.MDB_val) error) error {
	txn, err := s.reader()
	if err != nil {
		return err
	}
	defer s.release(txn)
	if rc := C.mdb_txn_renew(txn); rc != 0 {
		return lmdbError(rc)
	}
	defer C.mdb_txn_reset(txn)
	var c *C.MDB_cursor
	if rc := C.mdb_cursor_open(txn, s.dbi, &c); rc != 0 {
		return lmdbError(rc)
	}
	defer C.mdb_cursor_close(c)
	return f(c, new([2]C.MDB_val))
}

func (s *lmdbStore) iterate(p span, each func(Row) bool) error {
	return s.cursor(func(c *C.MDB_cursor, kv *[2]C.MDB_val) error {
		start, end, next := p.lo, C.MDB_cursor_op(C.MDB_FIRST), C.MDB_cursor_op(C.MDB_NEXT)
		if p.reverse {
			start, end, next = p.hi, C.MDB_LAST, C.MDB_PREV
		}
		rc := C.int(C.MDB_NOTFOUND)
		if len(start) > 0 {
			rc = C.ks_seek(c, unsafe.Pointer(&start[0]), C.size_t(len(start)), &kv[0],
				C.MDB_SET_RANGE)
		}
		switch {
		case rc == C.MDB_NOTFOUND && (p.reverse || len(start) == 0):
			rc = C.ks_step(c, &kv[0], end)
		case rc == 0 && p.reverse: // at the end, which is not part of the span
			rc = C.ks_step(c, &kv[0], next)
		}
		for n := 1; rc == 0; n++ {
			k := view(kv[0])
			if p.beyond(k) || !each(Row{PK: k, Value: view(kv[1])}) || n == p.limit {
				return nil
			}
			rc = C.ks_step(c, &kv[0], next)
		}
		if rc == C.MDB_NOTFOUND {
			return nil
		}
		return lmdbError(rc)
	})
}

func (s *lmdbStore) Close() error {
	for _, txn := range s.free {
		C.mdb_txn_abort(txn)
	}
	C.mdb_env_close(s.env)
	return nil
}
