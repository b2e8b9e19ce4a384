package tables

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"unsafe"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/mjl-/bstore"
	"github.com/timshannon/badgerhold/v4"
	bolt "go.etcd.io/bbolt"
)

// The libraries that keep structs, bstore and badgerhold, have a table's indexes in tags.

const bstoreTuning = "A read transaction for each question. It has no prepared queries and no " +
	"covering reads. It always syncs; where commits need only survive the end of the process, " +
	"that is turned off in the bbolt database inside."

const holdTuning = "Budgets as the others, Snappy, gob as it comes. Questions for one value of " +
	"an index take the short way of Find; others walk over the whole index. It has no prepared " +
	"queries and no covering reads."

// row1 is a row of the table with one index.
type row1 struct {
	ID       int64 `bstore:"noauto" badgerhold:"key"`
	Code     string
	At       int64 `bstore:"index" badgerhold:"index"`
	Seq      int64
	Customer int64
	Amount   int64
	Status   string
	Note     string
}

// row3 is a row of the table with three indexes.
type row3 struct {
	ID       int64  `bstore:"noauto" badgerhold:"key"`
	Code     string `bstore:"unique" badgerhold:"unique"`
	At       int64  `bstore:"index" badgerhold:"index"`
	Seq      int64  `bstore:"index" badgerhold:"index"`
	Customer int64
	Amount   int64
	Status   string
	Note     string
}

// indexed are the types of the tables with 0, 1 and 3 indexes.
type indexed interface{ Row | row1 | row3 }

func appendRows[T indexed](dst []Row, found []T) []Row {
	for _, v := range found {
		dst = append(dst, Row(v))
	}
	return dst
}

func appendPairs[T indexed](dst []pair, found []T) []pair {
	for _, v := range found {
		r := Row(v)
		dst = append(dst, pair{r.At, r.Amount})
	}
	return dst
}

// bstoreStore asks a table with three indexes, but for get, which every table answers.
type bstoreStore[T indexed] struct{ db *bstore.DB }

func openBstore(ctx context.Context, s settings) (store, error) {
	switch s.indexes {
	case 0:
		return openBstoreOf[Row](ctx, s)
	case 1:
		return openBstoreOf[row1](ctx, s)
	}
	return openBstoreOf[row3](ctx, s)
}

func openBstoreOf[T indexed](ctx context.Context, s settings) (store, error) {
	var zero T
	db, err := bstore.Open(ctx, filepath.Join(s.dir, "table.db"), nil, zero)
	if err != nil {
		return nil, err
	}
	if !s.sync {
		if err := noSync(db); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return bstoreStore[T]{db}, nil
}

// noSync turns syncing off. Why by reflection: bstore has no option for it, and compared
// with engines that do not wait for the disk it would be slower for that reason alone.
func noSync(db *bstore.DB) error {
	f := reflect.ValueOf(db).Elem().FieldByName("bdb")
	if !f.IsValid() || f.Type() != reflect.TypeFor[*bolt.DB]() {
		return errors.New("bstore: the bbolt database is not where version 0.0.8 has it")
	}
	inner := *(**bolt.DB)(unsafe.Pointer(f.UnsafeAddr()))
	inner.NoSync, inner.NoGrowSync = true, true
	return nil
}

func (s bstoreStore[T]) insert(ctx context.Context, rows []Row) error {
	all := make([]any, len(rows))
	for i, r := range rows {
		v := T(r)
		all[i] = &v
	}
	return s.db.Insert(ctx, all...)
}

func (s bstoreStore[T]) settle(context.Context) error             { return nil }
func (s bstoreStore[T]) session(context.Context) (session, error) { return s, nil }
func (s bstoreStore[T]) close() error                             { return s.db.Close() }

func (s bstoreStore[T]) get(ctx context.Context, id int64, r *Row) error {
	v := T(Row{ID: id})
	err := s.db.Get(ctx, &v)
	*r = Row(v)
	return err
}

func (s bstoreStore[T]) getOnce(ctx context.Context, id int64, r *Row) error {
	return s.get(ctx, id, r)
}

func (s bstoreStore[T]) query(ctx context.Context) *bstore.Query[T] {
	return bstore.QueryDB[T](ctx, s.db)
}

func (s bstoreStore[T]) getCode(ctx context.Context, code string, r *Row) error {
	v, err := s.query(ctx).FilterEqual("Code", code).Get()
	*r = Row(v)
	return err
}

func (s bstoreStore[T]) between(ctx context.Context, lo, hi int64) *bstore.Query[T] {
	return s.query(ctx).FilterGreaterEqual("At", lo).FilterLess("At", hi).SortAsc("At")
}

func (s bstoreStore[T]) rangeAt(ctx context.Context, dst []Row, lo, hi int64) ([]Row, error) {
	err := s.between(ctx, lo, hi).ForEach(func(v T) error {
		dst = append(dst, Row(v))
		return nil
	})
	return dst, err
}

func (s bstoreStore[T]) rangeCovered(ctx context.Context, dst []pair, lo, hi int64) ([]pair,
	error) {
	err := s.between(ctx, lo, hi).ForEach(func(v T) error {
		r := Row(v)
		dst = append(dst, pair{r.At, r.Amount})
		return nil
	})
	return dst, err
}

func (s bstoreStore[T]) firstBySeq(ctx context.Context, dst []Row, from int64, limit int) ([]Row,
	error) {
	q := s.query(ctx).FilterGreaterEqual("Seq", from).SortAsc("Seq").Limit(limit)
	err := q.ForEach(func(v T) error {
		dst = append(dst, Row(v))
		return nil
	})
	return dst, err
}

// holdStore asks a table with three indexes, but for get, which every table answers.
type holdStore[T indexed] struct{ db *badgerhold.Store }

func openHold(_ context.Context, s settings) (store, error) {
	o := badgerhold.DefaultOptions
	o.Options = badger.DefaultOptions(s.dir).WithSyncWrites(s.sync).
		WithMemTableSize(bufferBytes).WithBlockCacheSize(cacheBytes).
		WithCompression(options.Snappy).WithMetricsEnabled(false).WithLogger(nil)
	db, err := badgerhold.Open(o)
	if err != nil {
		return nil, err
	}
	switch s.indexes {
	case 0:
		return holdStore[Row]{db}, nil
	case 1:
		return holdStore[row1]{db}, nil
	}
	return holdStore[row3]{db}, nil
}

func (s holdStore[T]) insert(_ context.Context, rows []Row) error {
	return s.db.Badger().Update(func(tx *badger.Txn) error {
		for _, r := range rows {
			v := T(r)
			if err := s.db.TxInsert(tx, r.ID, &v); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s holdStore[T]) settle(context.Context) error             { return s.db.Badger().Flatten(1) }
func (s holdStore[T]) session(context.Context) (session, error) { return s, nil }
func (s holdStore[T]) close() error                             { return s.db.Close() }

func (s holdStore[T]) get(_ context.Context, id int64, r *Row) error {
	var v T
	err := s.db.Get(id, &v)
	*r = Row(v)
	return err
}

func (s holdStore[T]) getOnce(ctx context.Context, id int64, r *Row) error {
	return s.get(ctx, id, r)
}

func (s holdStore[T]) find(q *badgerhold.Query) (found []T, err error) {
	err = s.db.Find(&found, q)
	return found, err
}

// getCode uses Find, not FindOne: only Find looks the value up in the index.
func (s holdStore[T]) getCode(_ context.Context, code string, r *Row) error {
	found, err := s.find(badgerhold.Where("Code").Eq(code).Index("Code"))
	if err == nil && len(found) != 1 {
		err = badgerhold.ErrNotFound
	}
	if err == nil {
		*r = Row(found[0])
	}
	return err
}

func (s holdStore[T]) between(lo, hi int64) ([]T, error) {
	return s.find(badgerhold.Where("At").Ge(lo).And("At").Lt(hi).Index("At").SortBy("At"))
}

func (s holdStore[T]) rangeAt(_ context.Context, dst []Row, lo, hi int64) ([]Row, error) {
	found, err := s.between(lo, hi)
	return appendRows(dst, found), err
}

func (s holdStore[T]) rangeCovered(_ context.Context, dst []pair, lo, hi int64) ([]pair, error) {
	found, err := s.between(lo, hi)
	return appendPairs(dst, found), err
}

func (s holdStore[T]) firstBySeq(_ context.Context, dst []Row, from int64, limit int) ([]Row,
	error) {
	found, err := s.find(badgerhold.Where("Seq").Ge(from).Index("Seq").SortBy("Seq").Limit(limit))
	return appendRows(dst, found), err
}
