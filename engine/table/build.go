package table

import (
	"context"
	"errors"

	"github.com/kstonedb/kstone/engine/schema"
)

// Progress is how far something is that takes a while.
type Progress struct {
	Table, Index string
	What         string // "build", "drop index", "drop table", "verify" or "analyze"
	Done         int64  // rows or entries
	Total        int64  // estimated; 0 is not known
}

// CreateIndex adds an index and builds it while writers write; queries use it when
// CreateIndex returns. Progress, if not nil, is called now and then. If rows are in conflict
// with a unique index, the error is a *UniqueError and the index is removed again. If ctx
// ends, the index stays as it is: see Resume and DropIndex. An index of this name that is
// being built is resumed if the definitions agree.
func (db *DB) CreateIndex(ctx context.Context, table string, def schema.Index,
	progress func(Progress)) error {
	return errors.ErrUnsupported
}

// DropIndex removes an index and its entries. Queries and writers do not use it any more
// from the beginning. If ctx ends, Resume goes on.
func (db *DB) DropIndex(ctx context.Context, table, index string,
	progress func(Progress)) error {
	return errors.ErrUnsupported
}

// DropTable removes a table, its rows and all entries. The name is free from the
// beginning. If ctx ends, Resume goes on.
func (db *DB) DropTable(ctx context.Context, table string, progress func(Progress)) error {
	return errors.ErrUnsupported
}

// Resume finishes what was interrupted: indexes that are being built or dropped and tables
// that are being dropped.
func (db *DB) Resume(ctx context.Context, progress func(Progress)) error {
	return errors.ErrUnsupported
}
