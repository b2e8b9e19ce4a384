package table

import (
	"context"
	"errors"

	"github.com/kstonedb/kstone/engine/plan"
)

// AnalyzeOptions say how Analyze reads. Nil reads everything.
type AnalyzeOptions struct {
	// SampleRows bounds the rows, and the entries of each index, that are read; 0 is all.
	SampleRows int
	Progress   func(Progress)
}

// Analyze collects the statistics of a table, stores them in the database, and has queries
// planned anew with them.
func (db *DB) Analyze(ctx context.Context, table string, o *AnalyzeOptions) (*plan.TableStats,
	error) {
	return nil, errors.ErrUnsupported
}
