package table

import (
	"context"
	"errors"
)

// Report is what Verify has counted.
type Report struct {
	Rows    int64
	Entries map[string]int64 // of each index that is ready or being built
	// Damages are the first ones found, at most 100, and Damaged is how many there are.
	Damages []Damage
	Damaged int64
}

// Damage is one thing that is wrong with a row or an entry.
type Damage struct {
	Index string // plan.PrimaryIndex for rows
	What  string
	Err   error
}

// Verify reads a table and its indexes in one snapshot and checks that every row has its
// entries and every entry its row. The error matches engine.ErrCorrupt if that is not so;
// the report is complete then, too.
func (t *Table) Verify(ctx context.Context, progress func(Progress)) (*Report, error) {
	return nil, errors.ErrUnsupported
}
