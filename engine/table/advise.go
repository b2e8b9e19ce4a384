package table

import (
	"errors"

	"github.com/kstonedb/kstone/engine/plan"
)

// Advise recommends indexes for the queries that were run since the DB was opened: those
// that are missing, unused, redundant, or written to at one place only.
func (db *DB) Advise() ([]plan.Advice, error) { return nil, errors.ErrUnsupported }
