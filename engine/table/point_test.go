package table_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
)

// A point gives what the tree gives, for every kind of value.
//
// Promise (tables): A point read returns what the same query returns by other operators, and
// allocates little. Also `TestPreparedPointsAllocateLittle`.
func TestPointsAgreeWithPlans(t *testing.T) {
	// Queries that might be logged with their plans have plans; points take no OFFSET.
	db := open(t, &table.Options{SlowQuery: time.Hour, LogValues: true})
	people := create(t, db, peopleText)
	for i := range 40 {
		r := row(t, i, fmt.Sprint("m", i), fmt.Sprint("c", i%3), i)
		ok(t, people.Insert(ctx, r))
	}
	param := expr.Param{Index: 0}
	old := expr.Cmp{Op: expr.Gt, L: col(people, "age"), R: expr.Const{Value: expr.Int(5)}}
	for _, by := range []string{"id", "email"} {
		for _, more := range [][]expr.Expr{nil, {old}} {
			where := expr.And{Terms: append([]expr.Expr{expr.Cmp{Op: expr.Eq, L: col(people, by),
				R: param}}, more...)}
			for _, columns := range [][]plan.Output{nil, {{Expr: col(people, "id")}},
				{{Expr: col(people, "age")},
					{Expr: expr.Arith{Op: expr.Add, L: param, R: param}}}} {
				if by == "email" && len(columns) == 2 {
					continue
				}
				point := from(people, where)
				point.Columns = columns
				slow := *point
				slow.Limit, slow.Offset = number(10), number(0)
				for _, v := range []any{3, 7, 99, "m3", "m7", "x", nil} {
					if _, isText := v.(string); v != nil && isText != (by == "email") {
						continue
					}
					got, want := all(t, db, point, v), all(t, db, &slow, v)
					if fmt.Sprint(got) != fmt.Sprint(want) {
						t.Fatalf("%s = %v: %v, the plan says %v", by, v, got, want)
					}
				}
			}
		}
	}
}

// Reading by the primary key through a prepared query allocates next to nothing.
func TestPreparedPointsAllocateLittle(t *testing.T) {
	testutil.SkipUnderRace(t, "it allocates")
	db := open(t, nil)
	people := create(t, db, peopleText)
	ok(t, people.Insert(ctx, row(t, 7, "m", "c", 1)))
	q, err := db.Prepare(from(people, expr.Cmp{Op: expr.Eq, L: col(people, "id"),
		R: expr.Param{Index: 0}}))
	ok(t, err)
	key := []expr.Value{expr.Int(7)}
	n := testutil.AllocsPerRun(200, func() {
		rows, err := q.Query(ctx, db, key...)
		ok(t, err)
		for range rows.All() {
		}
	})
	if n > 5 {
		t.Errorf("%v allocations", n)
	}
	fresh := []expr.Value{expr.Int(0), expr.Null(), expr.String("c"), expr.Int(4)}
	id := int64(100)
	for ; id < 3000; id++ { // until pools and tables have their size
		fresh[0] = expr.Int(id)
		ok(t, people.Insert(ctx, fresh))
	}
	n = testutil.AllocsPerRun(200, func() {
		id++
		fresh[0] = expr.Int(id)
		ok(t, people.Insert(ctx, fresh))
	})
	if n > 8 {
		t.Errorf("%v allocations of an insert", n)
	}
}

// Verify reports every entry that is missing, too many, or another one.
//
// Promise (tables): Verify finds entries that are missing, too many, or changed.
func TestVerifyFindsDamage(t *testing.T) {
	db := open(t, nil)
	people := create(t, db, peopleText)
	for i := range 30 {
		ok(t, people.Insert(ctx, row(t, i, fmt.Sprint("m", i), "c", i)))
	}
	e := local.Engine(db)
	var keys []engine.Key
	for it, err := range e.Scan(ctx, engine.Scan{From: engine.K("i"), To: engine.K("u")}) {
		ok(t, err)
		keys = append(keys, it.Clone().Key)
	}
	for i, k := range keys {
		before, err := e.Get(k)
		ok(t, err)
		damages := map[string]func() error{
			"removed": func() error { return e.Delete(k) },
			"changed": func() error { return e.Put(k, append([]byte("\x01x"), before...)) },
			"added": func() error {
				return e.Put(engine.Key{PK: append([]byte{}, k.PK...), SK: append([]byte("zz"),
					k.SK...)}, before)
			},
		}
		if i%7 != 0 {
			continue
		}
		for name, damage := range damages {
			if name == "added" && k.PK[0] == 't' {
				continue
			}
			ok(t, damage())
			_, err := people.Verify(ctx, nil)
			var d *table.DamageError
			if !errors.As(err, &d) || !errors.Is(err, engine.ErrCorrupt) {
				t.Fatalf("%x/%x was %s: %v", k.PK, k.SK, name, err)
			}
			undo := e.Put(k, before)
			if name == "added" {
				undo = e.Delete(engine.Key{PK: k.PK, SK: append([]byte("zz"), k.SK...)})
			}
			if undo != nil {
				t.Fatal(undo)
			}
		}
	}
	verify(t, people)
}

// The stripe of an entry in a local index is that of its row, which a unique index alone
// does not tell: all buckets have to be asked.
func TestPointsInLocalIndexes(t *testing.T) {
	db := open(t, nil)
	tab := create(t, db, `{"name":"t","columns":[{"name":"s","type":"string"},
	 {"name":"id","type":"int64"}],"primary_key":["s"],"sort_key":["id"],
	 "indexes":[{"name":"one","columns":["s"],"unique":true,"local":true}]}`)
	for _, s := range []string{"x", "y", "z"} {
		ok(t, tab.Insert(ctx, row(t, s, 1)))
		if got := all(t, db, from(tab, eq(col(tab, "s"), s))); len(got) != 1 {
			t.Fatal(s, got)
		}
	}
}
