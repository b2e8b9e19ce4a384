//go:build cgo && rocksdb

package store

/*
#cgo LDFLAGS: -lrocksdb
#cgo noescape ks_rput
#cgo nocallback ks_rput
#cgo noescape ks_rget
#cgo nocallback ks_rget
#cgo noescape ks_rbatch
#cgo nocallback ks_rbatch
#cgo noescape ks_rmulti
#cgo nocallback ks_rmulti
#cgo noescape ks_rfree
#cgo nocallback ks_rfree
#cgo noescape ks_rseek
#cgo nocallback ks_rseek
#cgo noescape ks_rrows
#cgo nocallback ks_rrows
#include <rocksdb/c.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// ks_ropen opens with the handle of the default column family, which batched reads need.
static rocksdb_t *ks_ropen(rocksdb_options_t *o, const char *dir, const char *name,
		rocksdb_column_family_handle_t **cf, char **err) {
	return rocksdb_open_column_families(o, dir, 1, &name,
		(const rocksdb_options_t *const *)&o, cf, err);
}

static char *ks_rput(rocksdb_t *db, rocksdb_writeoptions_t *wo, const char *k, size_t kn,
		const char *v, size_t vn, int del) {
	char *err = NULL;
	if (del) rocksdb_delete(db, wo, k, kn, &err);
	else rocksdb_put(db, wo, k, kn, v, vn, &err);
	return err;
}

static char *ks_rbatch(rocksdb_t *db, rocksdb_writeoptions_t *wo, const char *p, size_t n) {
	char *err = NULL;
	const char *end = p + n;
	rocksdb_writebatch_t *b = rocksdb_writebatch_create();
	while (p < end) {
		uint32_t len[2];
		memcpy(len, p, 8);
		rocksdb_writebatch_put(b, p + 8, len[0], p + 8 + len[0], len[1]);
		p += 8 + (size_t)len[0] + len[1];
	}
	rocksdb_write(db, wo, b, &err);
	rocksdb_writebatch_destroy(b);
	return err;
}

// ks_rget copies the value to dst, which has cap free bytes. *n is its length, or
// SIZE_MAX if there is none.
static char *ks_rget(rocksdb_t *db, rocksdb_readoptions_t *ro, const char *k, size_t kn,
		char *dst, size_t cap, size_t *n) {
	char *err = NULL;
	rocksdb_pinnableslice_t *s = rocksdb_get_pinned(db, ro, k, kn, &err);
	*n = SIZE_MAX;
	if (s) {
		const char *v = rocksdb_pinnableslice_value(s, n);
		if (v == NULL) *n = SIZE_MAX;
		else if (*n <= cap) memcpy(dst, v, *n);
		rocksdb_pinnableslice_destroy(s);
	}
	return err;
}

// ks_rmulti looks up the keys of a packed buffer with one batched read. vals gets the
// pinned values, to be destroyed by ks_rfree.
static char *ks_rmulti(rocksdb_t *db, rocksdb_readoptions_t *ro,
		rocksdb_column_family_handle_t *cf, const char *p, size_t n,
		rocksdb_pinnableslice_t **pins, const char **vals, size_t *lens) {
	const char *keys[64];
	size_t sizes[64];
	char *errs[64];
	for (size_t i = 0; i < n; i++) {
		uint32_t len;
		memcpy(&len, p, 4);
		keys[i] = p + 8;
		sizes[i] = len;
		p += 8 + len;
	}
	rocksdb_batched_multi_get_cf(db, ro, cf, n, keys, sizes, pins, errs, 0);
	for (size_t i = 0; i < n; i++) {
		if (errs[i]) return errs[i];
		vals[i] = pins[i] ? rocksdb_pinnableslice_value(pins[i], &lens[i]) : NULL;
	}
	return NULL;
}

static void ks_rfree(rocksdb_pinnableslice_t **pins, size_t n) {
	for (size_t i = 0; i < n; i++) if (pins[i]) rocksdb_pinnableslice_destroy(pins[i]);
}

static void ks_rseek(rocksdb_iterator_t *it, const char *k, size_t n, int back) {
	if (n == 0) rocksdb_iter_seek_to_first(it);
	else if (back) rocksdb_iter_seek_for_prev(it, k, n);
	else rocksdb_iter_seek(it, k, n);
}

// ks_rrows copies keys and values to buf, at most so many rows; ends are where each ends. It first
// leaves the row that the iterator is at, unless *at is set. It returns the number of rows, or -1
// if the first does not fit.
static int ks_rrows(rocksdb_iterator_t *it, char *buf, size_t cap, size_t *ends, int back, int most,
		int *at) {
	size_t used = 0;
	for (int n = 0; n < most; n++) {
		if (!*at) {
			if (back) rocksdb_iter_prev(it);
			else rocksdb_iter_next(it);
		}
		*at = 1;
		if (!rocksdb_iter_valid(it)) return n;
		size_t kn, vn;
		const char *k = rocksdb_iter_key(it, &kn), *v = rocksdb_iter_value(it, &vn);
		if (used + kn + vn > cap) return n ? n : -1;
		memcpy(buf + used, k, kn);
		ends[2*n] = used += kn;
		memcpy(buf + used, v, vn);
		ends[2*n+1] = used += vn;
		*at = 0;
	}
	return most;
}
*/
import "C"

import (
	"errors"
	"math"
	"os"
	"regexp"
	"runtime"
	"unsafe"
)

// Configuration, after RocksDB's own advice (wiki: Setup Options and Basic Tuning):
// dynamic level sizes, 16 KiB blocks with a hash index of their keys (a quarter less
// processor time for a read than without; blocks of 4 and 8 KiB were no better), format
// version 5, full filters of 10 bits a key, filters and indexes beside the tables, LZ4,
// as many background jobs as processors, up to four write buffers. The log is written by
// one write call for each commit. A write is one C call, a read one; 64 rows of an
// iteration are one, copied, and so are 64 keys. Not used: pipelined and unordered writes,
// which help when many threads write unsynced; ribbon filters, which save memory and cost
// processor time.
func init() {
	register(5, Engine{
		Name:     "rocksdb",
		Version:  rocksVersion,
		Unsynced: SurvivesKill,
		Open:     openRocks,
	})
}

// rocksVersion finds the version, which the C interface does not report, in the name of
// the library that is loaded.
func rocksVersion() string {
	maps, _ := os.ReadFile("/proc/self/maps")
	m := regexp.MustCompile(`librocksdb\.so\.([0-9.]+)`).FindSubmatch(maps)
	if m == nil {
		return "unknown"
	}
	return string(m[1])
}

type rocksStore struct {
	ordered
	db *C.rocksdb_t
	cf *C.rocksdb_column_family_handle_t
	ro *C.rocksdb_readoptions_t
	wo *C.rocksdb_writeoptions_t
}

func rocksError(msg *C.char) error {
	if msg == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(msg))
	return errors.New("rocksdb: " + C.GoString(msg))
}

func openRocks(c Config) (Store, error) {
	t := C.rocksdb_block_based_options_create()
	cache := C.rocksdb_cache_create_lru(C.size_t(c.CacheBytes))
	C.rocksdb_block_based_options_set_block_cache(t, cache)
	C.rocksdb_block_based_options_set_block_size(t, 16<<10)
	C.rocksdb_block_based_options_set_data_block_index_type(t,
		C.rocksdb_block_based_table_data_block_index_type_binary_search_and_hash)
	C.rocksdb_block_based_options_set_data_block_hash_ratio(t, 0.75)
	C.rocksdb_block_based_options_set_format_version(t, 5)
	filter := C.rocksdb_filterpolicy_create_bloom_full(10)
	C.rocksdb_block_based_options_set_filter_policy(t, filter)
	o := C.rocksdb_options_create()
	C.rocksdb_options_set_create_if_missing(o, 1)
	C.rocksdb_options_set_block_based_table_factory(o, t)
	C.rocksdb_options_set_write_buffer_size(o, C.size_t(c.WriteBufferBytes))
	C.rocksdb_options_set_max_write_buffer_number(o, 4)
	C.rocksdb_options_set_level_compaction_dynamic_level_bytes(o, 1)
	C.rocksdb_options_increase_parallelism(o, C.int(max(runtime.NumCPU(), 2)))
	C.rocksdb_options_set_bytes_per_sync(o, 1<<20)
	C.rocksdb_options_set_compression(o, C.rocksdb_lz4_compression)
	if c.LargeValue > 0 {
		C.rocksdb_options_set_enable_blob_files(o, 1)
		C.rocksdb_options_set_min_blob_size(o, C.uint64_t(c.LargeValue))
		C.rocksdb_options_set_blob_file_size(o, C.uint64_t(valueLogBytes))
		C.rocksdb_options_set_blob_compression_type(o, C.rocksdb_lz4_compression)
		C.rocksdb_options_set_enable_blob_gc(o, 1)
		C.rocksdb_options_set_blob_gc_age_cutoff(o, 0.25)
		C.rocksdb_options_set_blob_gc_force_threshold(o, 0.2)
	}
	dir, name := C.CString(c.Dir), C.CString("default")
	defer C.free(unsafe.Pointer(dir))
	defer C.free(unsafe.Pointer(name))
	s := &rocksStore{ro: C.rocksdb_readoptions_create(), wo: C.rocksdb_writeoptions_create()}
	s.of = s
	var msg *C.char
	s.db = C.ks_ropen(o, dir, name, &s.cf, &msg)
	if msg != nil {
		return nil, rocksError(msg)
	}
	if c.Sync {
		C.rocksdb_writeoptions_set_sync(s.wo, 1)
	}
	return s, nil
}

func chars(b []byte) *C.char { return (*C.char)(unsafe.Pointer(unsafe.SliceData(b))) }

func (s *rocksStore) Put(k Key, value []byte) error {
	return rocksError(C.ks_rput(s.db, s.wo, chars(k.Bytes), C.size_t(len(k.Bytes)),
		chars(value), C.size_t(len(value)), 0))
}

func (s *rocksStore) Delete(k Key) error {
	return rocksError(C.ks_rput(s.db, s.wo, chars(k.Bytes), C.size_t(len(k.Bytes)), nil, 0, 1))
}

func (s *rocksStore) PutBatch(keys []Key, values [][]byte) error {
	p := packPool.Get().(*[]byte)
	defer packPool.Put(p)
	*p = pack((*p)[:0], keys, values)
	return rocksError(C.ks_rbatch(s.db, s.wo, chars(*p), C.size_t(len(*p))))
}

func (s *rocksStore) Get(dst []byte, k Key) ([]byte, bool, error) {
	for {
		at, free := len(dst), cap(dst)-len(dst)
		var n C.size_t
		err := rocksError(C.ks_rget(s.db, s.ro, chars(k.Bytes), C.size_t(len(k.Bytes)),
			chars(dst[at:]), C.size_t(free), &n))
		switch {
		case err != nil || n == C.SIZE_MAX:
			return dst, false, err
		case int(n) <= free:
			return dst[:at+int(n)], true, nil
		}
		dst = append(dst, make([]byte, n)...)[:at]
	}
}

const (
	rocksMulti = 64       // the most keys of one batched read, and rows of a call
	rocksRows  = 16 << 10 // bytes for those
)

func (s *rocksStore) MultiGet(keys []Key, each func(int, []byte)) error {
	var pins [rocksMulti]*C.rocksdb_pinnableslice_t
	var vals [rocksMulti]*C.char
	var lens [rocksMulti]C.size_t
	p := packPool.Get().(*[]byte)
	defer packPool.Put(p)
	for at := 0; at < len(keys); at += rocksMulti {
		part := keys[at:min(at+rocksMulti, len(keys))]
		*p = pack((*p)[:0], part, nil)
		err := rocksError(C.ks_rmulti(s.db, s.ro, s.cf, chars(*p), C.size_t(len(part)),
			&pins[0], &vals[0], &lens[0]))
		if err != nil {
			return err
		}
		for i := range part {
			if vals[i] == nil {
				each(at+i, nil)
			} else {
				each(at+i, cView(vals[i], lens[i]))
			}
		}
		C.ks_rfree(&pins[0], C.size_t(len(part)))
	}
	return nil
}

func cView(p *C.char, n C.size_t) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(p)), int(n)) }

// iterate checks the bounds itself. Backward it starts at the last key below hi, which
// is never a key itself.
func (s *rocksStore) iterate(p span, each func(Row) bool) error {
	it := C.rocksdb_create_iterator(s.db, s.ro)
	defer C.rocksdb_iter_destroy(it)
	start, back := p.lo, C.int(0)
	if p.reverse {
		start, back = p.hi, 1
	}
	C.ks_rseek(it, chars(start), C.size_t(len(start)), back)
	mem := packPool.Get().(*[]byte)
	defer packPool.Put(mem)
	var ends [2 * rocksMulti]C.size_t
	at, left := C.int(1), p.limit
	if left == 0 {
		left = math.MaxInt
	}
	for left > 0 {
		n := int(C.ks_rrows(it, chars(*mem), C.size_t(len(*mem)), &ends[0], back,
			C.int(min(left, rocksMulti)), &at))
		if n < 0 {
			*mem = make([]byte, max(2*len(*mem), rocksRows))
			continue
		}
		begin := C.size_t(0)
		for i := range n {
			k, v := (*mem)[begin:ends[2*i]], (*mem)[ends[2*i]:ends[2*i+1]]
			if begin = ends[2*i+1]; p.beyond(k) || !each(Row{PK: k, Value: v}) {
				return nil
			}
		}
		if left -= n; n == 0 {
			break
		}
	}
	var msg *C.char
	C.rocksdb_iter_get_error(it, &msg)
	return rocksError(msg)
}

// ScanKeys implements KeyScanner. The iterator reads blobs nevertheless.
func (s *rocksStore) ScanKeys() (n int, err error) {
	it := C.rocksdb_create_iterator(s.db, s.ro)
	defer C.rocksdb_iter_destroy(it)
	for C.rocksdb_iter_seek_to_first(it); C.rocksdb_iter_valid(it) != 0; C.rocksdb_iter_next(it) {
		n++
	}
	var msg *C.char
	C.rocksdb_iter_get_error(it, &msg)
	return n, rocksError(msg)
}

func (s *rocksStore) Flush() error {
	o := C.rocksdb_flushoptions_create()
	defer C.rocksdb_flushoptions_destroy(o)
	C.rocksdb_flushoptions_set_wait(o, 1)
	var msg *C.char
	C.rocksdb_flush(s.db, o, &msg)
	return rocksError(msg)
}

func (s *rocksStore) Close() error {
	C.rocksdb_column_family_handle_destroy(s.cf)
	C.rocksdb_close(s.db)
	return nil
}
