package tables

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"unsafe"

	"github.com/mjl-/bstore"
	bolt "go.etcd.io/bbolt"
)

const bstoreTuning = "A read transaction for each question. It has no prepared queries and no " +
	"covering reads. It always syncs; where commits need only survive the end of the process, " +
	"that is turned off in the bbolt database inside."

// The types of the tables with 0, 1 and 3 indexes.
type (
	bstoreRow0 struct {
		ID       int64 `bstore:"noauto"`
		Code     string
		At       int64
		Seq      int64
		Customer int64
		Amount   int64
		Status   string
		Note     string
	}
	bstoreRow1 struct {
		ID       int64 `bstore:"noauto"`
		Code     string
		At       int64 `bstore:"index"`
		Seq      int64
		Customer int64
		Amount   int64
		Status   string
		Note     string
	}
	bstoreRow3 struct {
		ID       int64  `bstore:"noauto"`
		Code     string `bstore:"unique"`
		At       int64  `bstore:"index"`
		Seq      int64  `bstore:"index"`
		Customer int64
		Amount   int64
		Status   string
		Note     string
	}
)

// bstoreTypes turns rows into what a type is inserted as, and back.
var bstoreTypes = map[int]struct {
	zero any
	of   func(Row) any
	get  func(context.Context, *bstore.DB, int64) (Row, error)
}{
	0: {bstoreRow0{}, func(r Row) any { v := bstoreRow0(r); return &v },
		func(ctx context.Context, db *bstore.DB, id int64) (Row, error) {
			v := bstoreRow0{ID: id}
			err := db.Get(ctx, &v)
			return Row(v), err
		}},
	1: {bstoreRow1{}, func(r Row) any { v := bstoreRow1(r); return &v },
		func(ctx context.Context, db *bstore.DB, id int64) (Row, error) {
			v := bstoreRow1{ID: id}
			err := db.Get(ctx, &v)
			return Row(v), err
		}},
	3: {bstoreRow3{}, func(r Row) any { v := bstoreRow3(r); return &v },
		func(ctx context.Context, db *bstore.DB, id int64) (Row, error) {
			v := bstoreRow3{ID: id}
			err := db.Get(ctx, &v)
			return Row(v), err
		}},
}

type bstoreStore struct {
	db      *bstore.DB
	indexes int
}

func openBstore(ctx context.Context, s settings) (store, error) {
	db, err := bstore.Open(ctx, filepath.Join(s.dir, "table.db"), nil, bstoreTypes[s.indexes].zero)
	if err != nil {
		return nil, err
	}
	if !s.sync {
		if err := noSync(db); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return &bstoreStore{db, s.indexes}, nil
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

func (s *bstoreStore) insert(ctx context.Context, rows []Row) error {
	all := make([]any, len(rows))
	for i, r := range rows {
		all[i] = bstoreTypes[s.indexes].of(r)
	}
	return s.db.Insert(ctx, all...)
}

func (s *bstoreStore) settle(context.Context) error             { return nil }
func (s *bstoreStore) session(context.Context) (session, error) { return bstoreSession{s}, nil }
func (s *bstoreStore) close() error                             { return s.db.Close() }

// bstoreSession asks a table with three indexes, but for get, which every table answers.
type bstoreSession struct{ *bstoreStore }

func (s bstoreSession) get(ctx context.Context, id int64, r *Row) (err error) {
	*r, err = bstoreTypes[s.indexes].get(ctx, s.db, id)
	return err
}

func (s bstoreSession) getOnce(ctx context.Context, id int64, r *Row) error {
	return s.get(ctx, id, r)
}

func (s bstoreSession) query(ctx context.Context) *bstore.Query[bstoreRow3] {
	return bstore.QueryDB[bstoreRow3](ctx, s.db)
}

func (s bstoreSession) getCode(ctx context.Context, code string, r *Row) error {
	v, err := s.query(ctx).FilterEqual("Code", code).Get()
	*r = Row(v)
	return err
}

func (s bstoreSession) between(ctx context.Context, lo, hi int64) *bstore.Query[bstoreRow3] {
	return s.query(ctx).FilterGreaterEqual("At", lo).FilterLess("At", hi).SortAsc("At")
}

func (s bstoreSession) rangeAt(ctx context.Context, dst []Row, lo, hi int64) ([]Row, error) {
	err := s.between(ctx, lo, hi).ForEach(func(v bstoreRow3) error {
		dst = append(dst, Row(v))
		return nil
	})
	return dst, err
}

func (s bstoreSession) rangeCovered(ctx context.Context, dst []pair,
	lo, hi int64) ([]pair, error) {
	err := s.between(ctx, lo, hi).ForEach(func(v bstoreRow3) error {
		dst = append(dst, pair{v.At, v.Amount})
		return nil
	})
	return dst, err
}

func (s bstoreSession) firstBySeq(ctx context.Context, dst []Row, from int64,
	limit int) ([]Row, error) {
	q := s.query(ctx).FilterGreaterEqual("Seq", from).SortAsc("Seq").Limit(limit)
	err := q.ForEach(func(v bstoreRow3) error {
		dst = append(dst, Row(v))
		return nil
	})
	return dst, err
}

func (s bstoreSession) close() error { return nil }
