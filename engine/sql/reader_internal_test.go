package sql

import (
	"context"

	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
)

// What follows runs statements where the API of the package has no way to: in snapshots and in
// pages. The tests of random statements want both.

// QueryIn runs a query in r. If paged, it begins after the cursor after, and Rows.Cursor
// gives more of them.
func (s *Stmt) QueryIn(ctx context.Context, r table.Reader, paged bool, after []byte,
	args ...any) (*Rows, error) {
	b, err := s.bound()
	if err != nil {
		return nil, err
	}
	values, err := b.asked.params.values(args, nil)
	if err != nil {
		return nil, err
	}
	sel := *b.sel
	sel.Page = paged
	prepared, err := s.session.db.Prepare(&sel)
	if err != nil {
		return nil, b.asked.planError(err, s.start)
	}
	rows, err := prepared.QueryAfter(ctx, r, after, values...)
	if err != nil {
		return nil, b.asked.planError(err, s.start)
	}
	return &Rows{Columns: b.columns, rows: rows, stmt: s, asked: b.asked}, nil
}

// Cursor returns where a page after the row of the loop body begins.
func (r *Rows) Cursor() []byte { return r.rows.Cursor() }

// Reader returns what the session reads.
func (s *Session) Reader() table.Reader { return s.reader() }

// Schema returns the table with that name, or nil.
func (s *Session) Schema(name string) *schema.Table { return tables{s.db}.Schema(name) }

// CachedPlans returns how many plans and statements the database of the session keeps.
func (s *Session) CachedPlans() int { return s.db.Plans().Stats().Entries }
