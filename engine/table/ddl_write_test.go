package table_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/engine/table/typed"
	"github.com/kstonedb/kstone/keycodec"
)

// write moves parts from row to row and negates codes.
func (c *changing) write(group *sync.WaitGroup) {
	add := func(n int64) func([]expr.Value) error {
		return func(row []expr.Value) error {
			v, _ := row[1].AsInt()
			row[1] = expr.Int(v + n)
			return nil
		}
	}
	c.run(group, "move", false, func(rng *rand.Rand) error {
		a, b := expr.Int(rng.Int64N(thingRows)), expr.Int(rng.Int64N(thingRows))
		return c.db.Update(ctx, func(tx *table.Tx) error {
			t := c.handle.In(tx)
			return errors.Join(t.Update(ctx, []expr.Value{a}, add(3)),
				t.Update(ctx, []expr.Value{b}, add(-3)))
		})
	})
	c.run(group, "negate", false, func(rng *rand.Rand) error {
		code := c.handle.Schema().Ref(0, 2)
		_, err := c.handle.UpdateWhere(ctx, eq(c.handle.Schema().Ref(0, 0),
			rng.Int64N(thingRows)), []table.Assignment{{Column: 2,
			Value: expr.Arith{Op: expr.Neg, L: code}}})
		return err
	})
	c.run(group, "sql negate", true, func(rng *rand.Rand) error {
		_, err := c.session.Exec(ctx, "UPDATE things SET code = -code WHERE id < ? AND id > ?",
			rng.Int64N(thingRows), rng.Int64N(thingRows))
		return err
	})
	c.run(group, "sql note", true, func(rng *rand.Rand) error {
		_, err := c.session.Exec(ctx, "UPDATE things SET note = note || 'x', part = part + 0 "+
			"WHERE part = ? AND length(note) < 20", rng.Int64N(30))
		return err
	})
	c.run(group, "typed move", true, func(rng *rand.Rand) error {
		a, b := rng.Int64N(thingRows), rng.Int64N(thingRows)
		err := c.db.Update(ctx, func(tx *table.Tx) error {
			for id, n := range map[int64]int64{a: 5, b: -5} {
				err := c.things.Update(ctx, tx, func(r *thing) error {
					if r.Part += n; a == b {
						r.Part = r.Part - n
					}
					return nil
				}, c.id.Eq(id))
				if err != nil {
					return err
				}
			}
			return nil
		})
		if errors.Is(err, table.ErrNotFound) {
			return nil
		}
		return err
	})
	c.run(group, "typed set", true, func(rng *rand.Rand) error {
		note := typed.Col(c.things, func(r *thing) *string { return &r.Note })
		_, err := c.things.UpdateWhere(ctx, c.db, c.id.Lt(rng.Int64N(9)), note.Set("y"))
		return err
	})
}

// define changes the definitions.
func (c *changing) define(rng *rand.Rand, round int) error {
	db, name := c.db, c.handle.Name()
	index := func(x schema.Index, ordinals ...int) error {
		if c.handle.Schema().Index(x.Name) != nil {
			return db.DropIndex(ctx, name, x.Name, nil)
		}
		for _, o := range ordinals {
			k := schema.KeyColumn{Ordinal: o}
			x.Columns = append(x.Columns, schema.IndexColumn{KeyColumn: k})
		}
		return c.handle.CreateIndex(ctx, x, nil)
	}
	switch kind := rng.IntN(10); {
	case kind == 0:
		return index(schema.Index{Name: "by_code", Unique: true}, 2)
	case kind == 1:
		return index(schema.Index{Name: "by_part", Include: []int{2}}, 1)
	case kind == 2:
		return index(schema.Index{Name: "local", Placement: schema.Local}, 2, 1)
	case kind == 3 && name == "things":
		if err := db.RenameTable(ctx, name, "others"); err != nil || rng.IntN(2) == 0 {
			return err
		}
		_, err := db.CreateTable(ctx, define(c, decoyText))
		return err
	case name == "others":
		if _, err := db.Table("things"); err == nil {
			if err := db.DropTable(ctx, "things", nil); err != nil {
				return err
			}
		}
		return db.RenameTable(ctx, name, "things")
	case kind == 4:
		if c.handle.Schema().Column("part") >= 0 {
			return db.RenameColumn(ctx, name, "part", "share")
		}
		return db.RenameColumn(ctx, name, "share", "part")
	case kind == 5:
		v := expr.Int(5)
		extra := schema.Column{Name: fmt.Sprint("extra", round), Type: keycodec.TypeInt64,
			Default: &v}
		if err := db.AddColumn(ctx, name, extra); err != nil || rng.IntN(3) == 0 {
			return err
		}
		return db.DropColumn(ctx, name, extra.Name)
	case kind == 6: // the column that some statements read and write
		if c.handle.Schema().Column("note") >= 0 {
			return db.DropColumn(ctx, name, "note")
		}
		v := expr.String("new")
		return db.AddColumn(ctx, name, schema.Column{Name: "note", Type: keycodec.TypeString,
			Default: &v})
	case kind == 7:
		o := table.AnalyzeOptions{SampleRows: 50 * rng.IntN(2), Seed: 1}
		_, err := db.Analyze(ctx, name, &o)
		return err
	}
	return c.sqlDefine(rng, name)
}

// sqlDefine changes the definitions by SQL.
func (c *changing) sqlDefine(rng *rand.Rand, name string) error {
	text := "CREATE INDEX IF NOT EXISTS by_sql ON " + name + " (code DESC) WHERE code > 0"
	if rng.IntN(2) == 0 {
		text = "DROP INDEX IF EXISTS by_sql ON " + name
	}
	_, err := c.session.Exec(ctx, text)
	return err
}

const decoyText = `{"name":"things","columns":[{"name":"part","type":"int64"},
 {"name":"id","type":"int64"},{"name":"note","type":"string"},{"name":"code","type":"int64"}],
 "primary_key":["id"]}`
