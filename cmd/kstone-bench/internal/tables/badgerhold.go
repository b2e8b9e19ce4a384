package tables

import (
	"context"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/timshannon/badgerhold/v4"
)

const holdTuning = "Budgets as the others, Snappy, gob as it comes. Questions for one value of " +
	"an index take the short way of Find; others walk over the whole index. It has no prepared " +
	"queries and no covering reads."

// The types of the tables with 0, 1 and 3 indexes.
type (
	holdRow0 struct {
		ID       int64 `badgerhold:"key"`
		Code     string
		At       int64
		Seq      int64
		Customer int64
		Amount   int64
		Status   string
		Note     string
	}
	holdRow1 struct {
		ID       int64 `badgerhold:"key"`
		Code     string
		At       int64 `badgerhold:"index"`
		Seq      int64
		Customer int64
		Amount   int64
		Status   string
		Note     string
	}
	holdRow3 struct {
		ID       int64  `badgerhold:"key"`
		Code     string `badgerhold:"unique"`
		At       int64  `badgerhold:"index"`
		Seq      int64  `badgerhold:"index"`
		Customer int64
		Amount   int64
		Status   string
		Note     string
	}
)

type holdStore struct {
	db      *badgerhold.Store
	indexes int
}

func openHold(_ context.Context, s settings) (store, error) {
	o := badgerhold.DefaultOptions
	o.Options = badger.DefaultOptions(s.dir).
		WithSyncWrites(s.sync).
		WithMemTableSize(bufferBytes).
		WithBlockCacheSize(cacheBytes).
		WithCompression(options.Snappy).
		WithMetricsEnabled(false).
		WithLogger(nil)
	db, err := badgerhold.Open(o)
	if err != nil {
		return nil, err
	}
	return &holdStore{db, s.indexes}, nil
}

func (s *holdStore) insert(_ context.Context, rows []Row) error {
	return s.db.Badger().Update(func(tx *badger.Txn) error {
		for _, r := range rows {
			if err := s.db.TxInsert(tx, r.ID, s.of(r)); err != nil {
				return err
			}
		}
		return nil
	})
}

// of returns a row as the type of the table.
func (s *holdStore) of(r Row) any {
	switch s.indexes {
	case 0:
		v := holdRow0(r)
		return &v
	case 1:
		v := holdRow1(r)
		return &v
	}
	v := holdRow3(r)
	return &v
}

func (s *holdStore) settle(context.Context) error             { return s.db.Badger().Flatten(1) }
func (s *holdStore) session(context.Context) (session, error) { return holdSession{s}, nil }
func (s *holdStore) close() error                             { return s.db.Close() }

// holdSession asks a table with three indexes, but for get, which every table answers.
type holdSession struct{ *holdStore }

func (s holdSession) get(_ context.Context, id int64, r *Row) (err error) {
	switch s.indexes {
	case 0:
		var v holdRow0
		err = s.db.Get(id, &v)
		*r = Row(v)
	case 1:
		var v holdRow1
		err = s.db.Get(id, &v)
		*r = Row(v)
	default:
		var v holdRow3
		err = s.db.Get(id, &v)
		*r = Row(v)
	}
	return err
}

func (s holdSession) getOnce(ctx context.Context, id int64, r *Row) error {
	return s.get(ctx, id, r)
}

// getCode uses Find, not FindOne: only Find looks the value up in the index.
func (s holdSession) getCode(_ context.Context, code string, r *Row) error {
	var found []holdRow3
	err := s.db.Find(&found, badgerhold.Where("Code").Eq(code).Index("Code"))
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return badgerhold.ErrNotFound
	}
	*r = Row(found[0])
	return nil
}

func (s holdSession) between(lo, hi int64) (found []holdRow3, err error) {
	q := badgerhold.Where("At").Ge(lo).And("At").Lt(hi).Index("At").SortBy("At")
	err = s.db.Find(&found, q)
	return found, err
}

func (s holdSession) rangeAt(_ context.Context, dst []Row, lo, hi int64) ([]Row, error) {
	found, err := s.between(lo, hi)
	for _, v := range found {
		dst = append(dst, Row(v))
	}
	return dst, err
}

func (s holdSession) rangeCovered(_ context.Context, dst []pair, lo, hi int64) ([]pair, error) {
	found, err := s.between(lo, hi)
	for _, v := range found {
		dst = append(dst, pair{v.At, v.Amount})
	}
	return dst, err
}

func (s holdSession) firstBySeq(_ context.Context, dst []Row, from int64,
	limit int) ([]Row, error) {
	var found []holdRow3
	q := badgerhold.Where("Seq").Ge(from).Index("Seq").SortBy("Seq").Limit(limit)
	err := s.db.Find(&found, q)
	for _, v := range found {
		dst = append(dst, Row(v))
	}
	return dst, err
}

func (s holdSession) close() error { return nil }
