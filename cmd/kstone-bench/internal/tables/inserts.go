package tables

import (
	"fmt"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
)

// insertBatches are the numbers of rows in a transaction.
var insertBatches = []int{1, 100}

func insertCase(p phase, batch int) string {
	durable := ""
	if p.sync {
		durable = ", synced"
	}
	indexes := fmt.Sprintf("%d indexes", p.indexes)
	if p.indexes == 1 {
		indexes = "1 index"
	}
	if batch == 1 {
		return fmt.Sprintf("insert, %s, single rows%s", indexes, durable)
	}
	return fmt.Sprintf("insert, %s, batches of %d%s", indexes, batch, durable)
}

// inserts measures insertion after the rows that are loaded.
func (b *bench) inserts(p phase, all []*contestant, d *data) error {
	first := d.n + 1
	for round := range b.Repeat {
		for _, batch := range insertBatches {
			err := measure.Rotate(b.ctx, round, len(all), func(i int) error {
				return b.insertTurn(p, all[i], d, batch, round)
			})
			if err != nil {
				return err
			}
		}
	}
	for _, c := range all {
		if err := verifyInserted(b.ctx, c.store, d, first, c.next-1); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// insertTurn inserts new rows, batch by batch. Making the rows is part of the time, the same
// for all.
func (b *bench) insertTurn(p phase, c *contestant, d *data, batch, round int) error {
	rows := make([]Row, batch)
	cost, err := turn(b.ctx, 1, b.Turn, func(int) error {
		for i := range rows {
			rows[i] = d.row(c.next)
			c.next++
		}
		return c.insert(b.ctx, rows)
	})
	name := insertCase(p, batch)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", c.name, name, err)
	}
	cost.ops *= int64(batch)
	cost.allocs /= float64(batch)
	cost.bytes /= float64(batch)
	return b.emit(cost.record(groupInserts, name, c.name, 1, round))
}
