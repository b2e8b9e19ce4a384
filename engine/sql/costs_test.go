package sql_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/table"
)

// farStore is a local store with the costs of one on other machines.
type farStore struct{ *local.Store }

func (s farStore) Limits() store.Limits {
	l := s.Store.Limits()
	l.Costs = store.Costs{RoundTrip: 1e6, Page: 4096, Batch: 4096, Trees: 1}
	return l
}

// Plans are priced with the costs of the store: where a round trip is dear, a small table is read
// at once rather than by an index and then by keys.
//
// Promise (plans): Plans are priced with the round trips, pages and batches of the store.
func TestCostsOfTheStore(t *testing.T) {
	ctx := context.Background()
	for _, far := range []bool{false, true} {
		e, err := engine.Open("costs", &engine.Options{InMemory: true})
		ok(t, err)
		defer e.Close()
		var from store.Store = local.New(e)
		want := "index scan"
		if far {
			from, want = farStore{local.New(e)}, "FULL SCAN"
		}
		db, err := table.OpenStore(ctx, from, nil)
		ok(t, err)
		defer db.Close()
		s := sql.Open(db)
		run := func(query string) {
			if _, err := s.Exec(ctx, query); err != nil {
				t.Fatalf("%s: %v", query, err)
			}
		}
		run(`CREATE TABLE people (id INT PRIMARY KEY, name TEXT, city INT, INDEX by_city (city))`)
		for i := range 200 {
			run(fmt.Sprintf(`INSERT INTO people VALUES (%d, 'n', %d)`, i, i%50))
		}
		run(`ANALYZE people`)
		rows, err := s.Query(ctx, `EXPLAIN SELECT name FROM people WHERE city = 3`)
		ok(t, err)
		var plan strings.Builder
		for row, err := range rows.All() {
			ok(t, err)
			fmt.Fprintln(&plan, row[0])
		}
		if !strings.Contains(plan.String(), want) {
			t.Errorf("far %v: want %s\n%s", far, want, plan.String())
		}
	}
}
