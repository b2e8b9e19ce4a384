package table

import (
	"github.com/kstonedb/kstone/engine/plan"
	"github.com/kstonedb/kstone/engine/schema"
)

// Workload returns the queries that were run since the DB was opened, each shape once.
func (db *DB) Workload() []plan.Workload {
	db.shapes.mu.Lock()
	defer db.shapes.mu.Unlock()
	var all []plan.Workload
	for _, s := range db.shapes.all {
		if n := s.count.Load(); n > 0 {
			all = append(all, plan.Workload{Query: &s.sel, Count: float64(n),
				Scanned: float64(n + s.scanned.Load()), Returned: float64(n + s.returned.Load())})
		}
	}
	return all
}

// Advise recommends indexes for the queries that were run since the DB was opened: those
// that are missing, unused, redundant, or written to at one place only. It prices them with
// the statistics of Analyze. Queries of tables that were dropped are left out.
func (db *DB) Advise() ([]plan.Advice, error) {
	byID := map[uint32]*schema.Table{}
	var tables []*schema.Table
	for _, t := range db.Tables() {
		tables = append(tables, t.Schema())
		byID[t.Schema().ID] = t.Schema()
	}
	var present []plan.Workload
	for _, w := range db.Workload() {
		known := true
		w.Query.Tables(func(t *schema.Table) { known = known && byID[t.ID] != nil })
		if !known {
			continue
		}
		w.Query = swapTables(w.Query, byID)
		if _, err := plan.Prepare(w.Query, plan.Options{}); err == nil {
			present = append(present, w)
		}
	}
	return plan.Advise(present, tables, db.planOptions())
}
