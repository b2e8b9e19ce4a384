package table_test

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/internal/syntax"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
	"github.com/kstonedb/kstone/internal/testutil"
)

// thing is a row of the table whose definition changes all the time. The sum of all Part is
// always 0, and Code is ID+1, or that negated.
type thing struct {
	ID   int64  `kstone:"id,pk"`
	Part int64  `kstone:"part"`
	Code int64  `kstone:"code"`
	Note string `kstone:"note"`
}

const thingRows = 120

// changing is a database whose definitions change while statements run.
type changing struct {
	*testing.T
	db      *table.DB
	things  *typed.Table[thing]
	id      typed.Column[thing, int64]
	code    typed.Column[thing, int64]
	handle  *table.Table // follows renames
	session *sql.Session
	all     *plan.Select // whole rows, of the first definition
	sum     *table.Prepared
	cache   *typed.RowCache[thing]
	prepare *typed.Prepared[thing]
	over    atomic.Bool
	done    sync.Map // by name: how often each statement has succeeded
}

func newChanging(t *testing.T) *changing {
	c := &changing{T: t, things: typed.NewTable[thing]("things")}
	c.id = typed.Col(c.things, func(r *thing) *int64 { return &r.ID })
	c.code = typed.Col(c.things, func(r *thing) *int64 { return &r.Code })
	c.things.Unique("by_code", c.code.Asc())
	c.db = open(t, nil)
	ok(t, typed.Migrate(ctx, c.db, c.things))
	c.session = sql.Open(c.db)
	for i := range int64(thingRows) {
		row := thing{ID: i, Part: 2*i + 1 - thingRows, Code: i + 1}
		ok(t, c.things.Insert(ctx, c.db, &row))
	}
	var err error
	if c.handle, err = c.db.Table("things"); err != nil {
		t.Fatal(err)
	}
	c.all = from(c.handle, nil)
	c.all.Columns = []plan.Output{{Expr: col(c.handle, "id")}, {Expr: col(c.handle, "part")},
		{Expr: col(c.handle, "code")}}
	sum := from(c.handle, expr.Cmp{Op: expr.Ne, L: col(c.handle, "code"), R: expr.Param{}})
	sum.Aggregates = []plan.Aggregate{{Func: plan.Count}, {Func: plan.Sum,
		Arg: col(c.handle, "part")}}
	if c.sum, err = c.db.Prepare(sum); err != nil {
		t.Fatal(err)
	}
	if c.cache, err = typed.NewRowCache(c.db, c.things, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.cache.Close)
	c.prepare = c.things.Where(c.code.GtArg(c.code.Arg("least"))).OrderBy(c.code.Asc()).Prepare()
	return c
}

// changed reports whether an error says that a definition is another one than the statement
// was made for.
func changed(err error) bool {
	if errors.Is(err, table.ErrNoTable) || errors.Is(err, table.ErrChanged) {
		return true
	}
	var inText *syntax.Error
	var inQuery *plan.QueryError
	return (errors.As(err, &inText) || errors.As(err, &inQuery)) &&
		(strings.Contains(err.Error(), "there is no column") ||
			strings.Contains(err.Error(), " has no column ")) || // SET names one
		strings.Contains(err.Error(), "it needs Migrate") ||
		errors.Is(err, table.ErrInvalid) && strings.Contains(err.Error(), "was dropped")
}

// run runs a statement again and again until the definitions do not change any more.
func (c *changing) run(group *sync.WaitGroup, name string, byName bool,
	statement func(rng *rand.Rand) error) {
	group.Add(1)
	go func() {
		defer group.Done()
		rng := rand.New(rand.NewPCG(7, uint64(len(name))))
		n := 0
		for !c.over.Load() {
			err := statement(rng)
			switch {
			case err == nil:
				n++
			case byName && changed(err):
			default:
				c.Errorf("%s: %v", name, err)
				return
			}
		}
		c.done.Store(name, n)
	}()
}

// checkSum checks a count and a sum. A table of the name that is another one has no rows.
func (c *changing) checkSum(row []expr.Value, byName bool) error {
	n, _ := row[0].AsInt()
	sum, _ := row[1].AsInt()
	if n == thingRows && sum == 0 || byName && n == 0 {
		return nil
	}
	return fmt.Errorf("%d rows with the sum %s", n, row[1])
}

// checkSums is checkSum of a result.
func (c *changing) checkSums(rows iter.Seq2[[]expr.Value, error], byName bool) error {
	for row, err := range rows {
		if err == nil {
			err = c.checkSum(row, byName)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkRows checks whole rows: ids, parts and codes.
func (c *changing) checkRows(rows [][3]int64, byName bool) error {
	if byName && len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, func(a, b [3]int64) int { return int(a[0] - b[0]) })
	sum := int64(0)
	for i, r := range rows {
		if r[0] != int64(i) || r[2] != r[0]+1 && r[2] != -r[0]-1 {
			return fmt.Errorf("row %d is %v", i, r)
		}
		sum += r[1]
	}
	if len(rows) != thingRows || sum != 0 {
		return fmt.Errorf("%d rows with the sum %d", len(rows), sum)
	}
	return nil
}

func ints(row []expr.Value) (out [3]int64) {
	for i := range out {
		out[i], _ = row[i].AsInt()
	}
	return out
}

// readTables reads with queries that know the table, whatever its name is.
func (c *changing) readTables(group *sync.WaitGroup) {
	read := func(r table.Reader) error {
		rows, err := c.sum.Query(ctx, r, expr.Int(0))
		if err != nil {
			return err
		}
		return c.checkSums(rows.All(), false)
	}
	c.run(group, "prepared", false, func(*rand.Rand) error { return read(c.db) })
	c.run(group, "snapshot", false, func(*rand.Rand) error {
		snap, err := c.db.Snapshot(ctx)
		if err != nil {
			return err
		}
		defer snap.Close()
		if err := read(snap); err != nil {
			return err
		}
		return c.readAll(snap)
	})
	c.run(group, "transaction", false, func(*rand.Rand) error {
		return c.db.Update(ctx, func(tx *table.Tx) error { return read(tx) })
	})
	c.run(group, "rows", false, func(*rand.Rand) error { return c.readAll(c.db) })
	c.run(group, "pages", false, c.readPages)
	c.run(group, "keys", false, func(rng *rand.Rand) error {
		var rows [][3]int64
		keys := [][]expr.Value{}
		for i := range 10 {
			keys = append(keys, []expr.Value{expr.Int(int64(i) * 10)})
		}
		err := c.handle.MultiGet(ctx, keys, func(_ int, row []expr.Value) {
			rows = append(rows, [3]int64{0, 0, 0})
		})
		if err == nil && len(rows) != len(keys) {
			err = fmt.Errorf("%d rows of %d keys", len(rows), len(keys))
		}
		if err == nil {
			_, err = c.handle.Get(ctx, expr.Int(rng.Int64N(thingRows)))
		}
		return err
	})
}

func (c *changing) readAll(r table.Reader) error {
	rows, err := r.Query(ctx, c.all)
	if err != nil {
		return err
	}
	var got [][3]int64
	for row, err := range rows.All() {
		if err != nil {
			return err
		}
		got = append(got, ints(row))
	}
	return c.checkRows(got, false)
}

// readPages reads all rows page by page. Parts change between pages, ids do not.
func (c *changing) readPages(*rand.Rand) error {
	sel := *c.all
	sel.OrderBy = []plan.Order{{Expr: col(c.handle, "id")}}
	sel.Limit, sel.Page = constant(17), true
	p, err := c.db.Prepare(&sel)
	if err != nil {
		return err
	}
	var after []byte
	for next := int64(0); next < thingRows; {
		rows, err := p.QueryAfter(ctx, c.db, after)
		if err != nil {
			return err
		}
		n := 0
		for row, err := range rows.All() {
			if err != nil {
				return err
			}
			if r := ints(row); r[0] != next {
				return fmt.Errorf("row %v instead of %d", r, next)
			}
			next++
			n++
			after = rows.Cursor()
		}
		if n == 0 {
			return fmt.Errorf("an empty page before row %d", next)
		}
	}
	return nil
}

// readNames reads with what knows the table and its columns by their names.
func (c *changing) readNames(group *sync.WaitGroup) {
	c.run(group, "sql", true, func(*rand.Rand) error {
		rows, err := c.session.Query(ctx,
			"SELECT count(*), sum(part) FROM things WHERE code <> ?", 0)
		if err != nil {
			return err
		}
		return c.checkSums(rows.All(), true)
	})
	c.run(group, "sql by index", true, func(rng *rand.Rand) error {
		id := rng.Int64N(thingRows)
		rows, err := c.session.Query(ctx, "SELECT id, part, code FROM things WHERE code IN (?, ?)",
			id+1, -id-1)
		if err != nil {
			return err
		}
		n := 0
		for row, err := range rows.All() {
			if err != nil {
				return err
			}
			if r := ints(row); r[0] != id {
				return fmt.Errorf("row %v instead of %d", r, id)
			}
			n++
		}
		if n > 1 {
			return fmt.Errorf("row %d came %d times", id, n)
		}
		return nil
	})
}

// readTyped is readNames with structs.
func (c *changing) readTyped(group *sync.WaitGroup) {
	c.run(group, "typed", true, func(*rand.Rand) error {
		var got [][3]int64
		for r, err := range c.things.Where().Each(ctx, c.db) {
			if err != nil {
				return err
			}
			got = append(got, [3]int64{r.ID, r.Part, r.Code})
		}
		return c.checkRows(got, true)
	})
	c.run(group, "typed prepared", true, func(*rand.Rand) error {
		var got [][3]int64
		least := c.code.Arg("least").Is(-thingRows - 1)
		for r, err := range c.prepare.All(ctx, c.db, least) {
			if err != nil {
				return err
			}
			got = append(got, [3]int64{r.ID, r.Part, r.Code})
		}
		return c.checkRows(got, true)
	})
	c.run(group, "typed get", true, func(rng *rand.Rand) error {
		id := rng.Int64N(thingRows)
		r, err := c.things.Get(ctx, c.db, c.id.Eq(id))
		return c.checkRow(id, r, err)
	})
	c.run(group, "cache", true, func(rng *rand.Rand) error {
		id := rng.Int64N(thingRows)
		r, err := c.cache.Get(ctx, c.id.Eq(id))
		return c.checkRow(id, r, err)
	})
}

func (c *changing) checkRow(id int64, r thing, err error) error {
	switch {
	case errors.Is(err, table.ErrNotFound): // of another table of the name
		return nil
	case err == nil && (r.ID != id || r.Code != id+1 && r.Code != -id-1):
		return fmt.Errorf("%+v instead of row %d", r, id)
	}
	return err
}

// TestDefinitionsChangeBesideStatements renames a table and its columns, adds and drops
// columns and indexes, and puts another table in its place, while queries, prepared ones,
// cursors, transactions, caches, SQL and structs read and write. Those that hold the table see
// whole states of it at all times; those that use names do, or get an error that names the change.
func TestDefinitionsChangeBesideStatements(t *testing.T) {
	c := newChanging(t)
	var group sync.WaitGroup
	c.readTables(&group)
	c.readNames(&group)
	c.readTyped(&group)
	c.write(&group)
	rounds := testutil.Effort(12, 100) // under the race detector more than a second each
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range rounds {
		if err := c.define(rng, round); err != nil || t.Failed() {
			t.Errorf("round %d: %v", round, err)
			break
		}
	}
	c.over.Store(true)
	group.Wait()
	counts := map[any]any{}
	c.done.Range(func(name, n any) bool {
		counts[name] = n
		return true
	})
	t.Log(counts)
	verify(t, c.handle)
	ok(t, c.readAll(c.db))
	if err := c.db.Resume(ctx, nil); err != nil || c.db.Unfinished() {
		t.Error(err)
	}
}
