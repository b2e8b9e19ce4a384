package table

import (
	"context"
	"errors"
	"sync"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// point is the short way of a query that finds at most one row by a unique key: one read
// by the primary key, two by another index that does not cover the query. It is immutable.
type point struct {
	*plan.Point
	index   *schema.Index
	table   *schema.Table
	want    schema.ColumnSet
	filter  expr.Program
	tests   bool
	columns []pointColumn
	indexed schema.ColumnSet // the columns of index
}

// pointColumn is a column of the result: that of the table, or an expression.
type pointColumn struct {
	ordinal int // -1: program
	program expr.Program
}

// newPoint returns the short way of a query, nil if it has none.
func newPoint(c *compiled) (*point, error) {
	pt := c.plan.Point()
	// The bucket of a local index follows from the row's key, which a Point does not know.
	local := pt != nil && pt.Index != nil && pt.Index.Placement == schema.Local
	if pt == nil || local || c.sel.RowKeys {
		return nil, nil
	}
	p := &point{Point: pt, index: pt.Index, table: pt.Table}
	if p.index != nil {
		p.indexed = schema.Columns(p.index.Ordinals()...)
	}
	var err error
	need := func(e expr.Expr) expr.Program {
		expr.Walk(e, func(e expr.Expr) bool {
			if col, ok := e.(expr.Column); ok {
				p.want.Add(col.Ordinal)
			}
			return true
		})
		program, compileErr := expr.Compile(e)
		err = errors.Join(err, compileErr)
		return program
	}
	if pt.Filter != nil {
		p.filter, p.tests = need(pt.Filter), true
	}
	for _, o := range c.plan.Columns() {
		if col, ok := o.Expr.(expr.Column); ok {
			p.want.Add(col.Ordinal)
			p.columns = append(p.columns, pointColumn{ordinal: col.Ordinal})
			continue
		}
		p.columns = append(p.columns, pointColumn{-1, need(o.Expr)})
	}
	return p, err
}

// pointScratch is the memory of one execution.
type pointScratch struct {
	pk, sk, value, row2 []byte
	again               []byte // sk, made of a row
	entered             bool   // there is an entry
	row, out            []expr.Value
}

var pointPool = sync.Pool{New: func() any { return new(pointScratch) }}

func (p *point) scratch() *pointScratch {
	s := pointPool.Get().(*pointScratch)
	if n := len(p.table.Columns); cap(s.row) < n {
		s.row = make([]expr.Value, n)
	} else {
		s.row = s.row[:n]
	}
	return s
}

func (s *pointScratch) release() {
	if cap(s.value) <= maxPooledBytes && cap(s.row2) <= maxPooledBytes {
		clear(s.row)
		clear(s.out)
		pointPool.Put(s)
	}
}

// run yields the row if there is one and it satisfies the filter.
func (p *point) run(ctx context.Context, r store.Reader, params []expr.Value,
	yield func([]expr.Value) bool) error {
	s := p.scratch()
	defer s.release()
	found, err := p.read(ctx, r, s, params)
	if err != nil || !found {
		return err
	}
	if p.tests {
		truth, err := p.filter.Test(s.row, params)
		if err != nil || truth != expr.True {
			return err
		}
	}
	s.out = s.out[:0]
	for i := range p.columns {
		c := &p.columns[i]
		if c.ordinal >= 0 {
			s.out = append(s.out, s.row[c.ordinal])
			continue
		}
		v, err := c.program.Value(s.row, params)
		if err != nil {
			return err
		}
		s.out = append(s.out, v)
	}
	yield(s.out)
	return nil
}

// read fills s.row with the wanted columns.
func (p *point) read(ctx context.Context, r store.Reader, s *pointScratch,
	params []expr.Value) (found bool, err error) {
	if s.pk, s.sk, found, err = p.Key(s.pk[:0], s.sk[:0], params); err != nil || !found {
		return false, err
	}
	key := store.Key{PK: s.pk}
	if len(s.sk) > 0 {
		key.SK = s.sk
	}
	s.value, err = r.Get(ctx, s.value[:0], key)
	if err != nil {
		return false, absent(err)
	}
	if p.index == nil {
		return true, p.table.Decode(s.row, key, s.value, &p.want)
	}
	var want *schema.ColumnSet
	if p.Covering {
		want = &p.want
	} else {
		want = &schema.ColumnSet{}
	}
	key, s.pk, err = p.index.DecodeEntry(s.row, s.pk, key.SK, s.value, want)
	if err != nil || p.Covering {
		return err == nil, err
	}
	if s.row2, err = r.Get(ctx, s.row2[:0], key); err != nil {
		return false, absent(err)
	}
	return true, p.table.Decode(s.row, key, s.row2, &p.want)
}

// absent makes no error of ErrNotFound.
func absent(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
