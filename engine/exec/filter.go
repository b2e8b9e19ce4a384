package exec

import (
	"slices"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// condition is a compiled predicate; the zero condition accepts everything.
type condition struct {
	program expr.Program
	params  []expr.Value
	some    bool
}

func (r *runner) condition(e expr.Expr) (condition, error) {
	if e == nil {
		return condition{}, nil
	}
	p, err := r.program(e)
	return condition{p, r.params, true}, err
}

// holds reports whether the condition is true, not merely unknown.
func (c *condition) holds(row []expr.Value) (bool, error) {
	if !c.some {
		return true, nil
	}
	truth, err := c.program.Test(row, c.params)
	return truth == expr.True, err
}

// intFilter tests the rows of a block for a condition on integers, all at a time.
type intFilter struct {
	test    *expr.IntTest
	reader  *schema.IntReader
	columns [][]int64
	keep    []bool
}

// intFilter returns that of a condition on rows, nil if it is not one on integers alone.
func (a *access) intFilter(e expr.Expr) *intFilter {
	f := &intFilter{test: expr.CompileIntTest(e)}
	if f.test == nil || a.node.Index != nil {
		return nil
	}
	var ordinals []int
	for _, at := range f.test.Places() {
		if uint(at) >= uint(len(a.decoder.ordinals)) {
			return nil
		}
		ordinals = append(ordinals, a.decoder.ordinals[at])
	}
	if f.reader = a.node.Table.IntReader(ordinals); f.reader == nil {
		return nil
	}
	f.columns = make([][]int64, len(ordinals))
	return f
}

// keeps returns which rows of a block pass; nil if each has to be tested.
func (f *intFilter) keeps(b *store.Block, params []expr.Value) []bool {
	n := b.Len()
	if f == nil || n < minTogether {
		return nil
	}
	if n > cap(f.keep) {
		f.keep = make([]bool, n)
		for i := range f.columns {
			f.columns[i] = make([]int64, n)
		}
	}
	f.keep = f.keep[:n]
	for i := range f.columns {
		f.columns[i] = f.columns[i][:n]
	}
	values := b.Values()
	if !f.reader.Read(f.columns, f.keep, &values) || !f.test.Test(f.columns, f.keep, params) {
		return nil
	}
	return f.keep
}

// intColumn is a column of integers of the rows of a block.
type intColumn struct {
	reader *schema.IntReader
	column [1][]int64
	known  []bool // which rows have a value, not NULL; then which are wanted
}

// read returns the column; ok is false if each row has to be looked at by itself.
func (c *intColumn) read(b *store.Block) (values []int64, known []bool, ok bool) {
	n := b.Len()
	if n < minTogether {
		return nil, nil, false
	}
	if n > cap(c.known) {
		c.known, c.column[0] = make([]bool, n), make([]int64, n)
	}
	c.known, c.column[0] = c.known[:n], c.column[0][:n]
	all := b.Values()
	return c.column[0], c.known, c.reader.Read(c.column[:], c.known, &all)
}

// intReader returns a reader of the column at a place of the rows, nil if it is not one of integers
// that stored rows have.
func (a *access) intReader(at int) *schema.IntReader {
	if a.node.Index != nil || uint(at) >= uint(len(a.decoder.ordinals)) {
		return nil
	}
	return a.node.Table.IntReader(a.decoder.ordinals[at : at+1])
}

// narrower leaves out rows of a block that change nothing of what is made of the rows. It returns
// which rows may be wanted of those that keep has, nil keep being all, and counts the others as
// rows.
type narrower interface {
	narrow(b *store.Block, keep []bool, a *plan.Actual) []bool
}

// intBound leaves out rows that cannot be among the first ones of a sort.
type intBound struct {
	intColumn // the first key
	desc      bool
	// last returns that of the last of the rows that are kept, if there are enough.
	last func() (key int64, ok bool)
}

func (f *intBound) narrow(b *store.Block, keep []bool, a *plan.Actual) []bool {
	last, ok := f.last()
	if !ok {
		return keep
	}
	values, wanted, ok := f.read(b)
	if !ok {
		return keep
	}
	for i, v := range values {
		known := wanted[i]
		switch {
		case keep != nil && !keep[i]:
			wanted[i] = false
		case known && (!f.desc && v > last || f.desc && v < last):
			wanted[i] = false
			a.Rows++
		default:
			wanted[i] = true
		}
	}
	return wanted
}

// intPartners leaves out rows that have no partner in a hash join.
type intPartners struct {
	intColumn // the key
	of        *access
	table     *keyTable
	numbers   []int // of the keys, in the table, of the rows of the present block; or none
}

func (f *intPartners) narrow(b *store.Block, keep []bool, a *plan.Actual) []bool {
	values, wanted, ok := f.read(b)
	if !ok {
		f.numbers = f.numbers[:0]
		return keep
	}
	f.numbers = slices.Grow(f.numbers[:0], len(values))[:len(values)]
	rows := len(values)
	if keep != nil {
		rows = 0
		for i, yes := range keep {
			if wanted[i] = wanted[i] && yes; yes {
				rows++
			}
		}
	}
	f.table.findInts(f.numbers, values, wanted)
	for i, yes := range wanted {
		if wanted[i] = yes && f.numbers[i] >= 0; wanted[i] {
			rows--
		}
	}
	a.Rows += int64(rows)
	return wanted
}

// found returns the number of the key of the row that is handed on; ok is false if it was not
// looked up.
func (f *intPartners) found() (n int, ok bool) {
	if f == nil || !f.of.narrowed || len(f.numbers) == 0 {
		return 0, false
	}
	return f.numbers[f.of.at], true
}

// minTogether is how many rows are tested together at least. Why not fewer: that takes longer than
// to test each.
const minTogether = 4

// filter passes the rows for which a condition is true.
type filter struct {
	input  operator
	cond   condition
	failed error
}

func (r *runner) filter(n *plan.Filter) (operator, error) {
	input, err := r.compile(n.Input)
	if err != nil {
		return nil, err
	}
	cond, err := r.condition(n.Pred)
	return &filter{input: input, cond: cond}, err
}

func (f *filter) run(yield func([]expr.Value) bool) error {
	f.failed = nil
	err := f.input.run(func(row []expr.Value) bool {
		ok, err := f.cond.holds(row)
		if err != nil {
			f.failed = err
			return false
		}
		return !ok || yield(row)
	})
	return first(f.failed, err)
}

// first returns the first error that there is.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// project computes a new row of each row.
type project struct {
	input  operator
	exprs  keyMaker
	params []expr.Value
	failed error
}

func (r *runner) project(n *plan.Project) (operator, error) {
	input, err := r.compile(n.Input)
	if err != nil {
		return nil, err
	}
	p := &project{input: input, params: r.params}
	return p, p.exprs.set(r, n.Exprs)
}

func (p *project) run(yield func([]expr.Value) bool) error {
	p.failed = nil
	err := p.input.run(func(row []expr.Value) bool {
		out, err := p.exprs.values(row, p.params)
		if err != nil {
			p.failed = err
			return false
		}
		return yield(out)
	})
	return first(p.failed, err)
}

// limit skips rows and ends early.
type limit struct {
	input         operator
	count, offset int64
}

func (r *runner) limit(n *plan.Limit) (operator, error) {
	r.limited = true
	input, err := r.compile(n.Input)
	return &limit{input, n.Count, n.Offset}, err
}

func (l *limit) run(yield func([]expr.Value) bool) error {
	if l.count == 0 {
		return nil
	}
	seen := int64(0)
	return l.input.run(func(row []expr.Value) bool {
		if seen++; seen <= l.offset {
			return true
		}
		return yield(row) && (l.count < 0 || seen-l.offset < l.count)
	})
}

// derived passes the first elements of the rows of a subquery.
type derived struct {
	input operator
	width int
}

func (r *runner) derived(n *plan.Derived) (operator, error) {
	input, err := r.compile(n.Input)
	return &derived{input, len(n.Layout())}, err
}

func (d *derived) run(yield func([]expr.Value) bool) error {
	return d.input.run(func(row []expr.Value) bool { return yield(row[:d.width:d.width]) })
}
