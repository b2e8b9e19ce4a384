package table

import (
	"context"

	"github.com/kstonedb/kstone/engine/expr"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/store"
)

// stored runs a query of whole rows and yields them as they are stored, by which definition of
// their table they are to be read, and no more of them than most if that is not negative. used
// is false if the query cannot be run so: nothing was read.
func (p *Prepared) stored(ctx context.Context, from Reader, params []expr.Value, most int64,
	yield func(t *schema.Table, key store.Key, value []byte) bool) (used bool, err error) {
	for {
		c, err := p.compile(from)
		if err != nil {
			return true, err
		}
		if c.point != nil || c.direct == nil || !c.direct.Stored() || p.db.opt.SlowQuery > 0 {
			return false, nil
		}
		if err := c.direct.Check(params); err != nil {
			return true, err
		}
		reader, done, err := from.open(ctx)
		if err != nil {
			return true, err
		}
		// Why again: see Rows.open.
		if same, err := p.fits(c, from); !same || err != nil {
			done()
			continue
		}
		defer done()
		return c.runStored(ctx, reader, params, most, yield)
	}
}

func (c *compiled) runStored(ctx context.Context, reader store.Reader, params []expr.Value,
	most int64, yield func(t *schema.Table, key store.Key, value []byte) bool) (bool, error) {
	returned, t := int64(0), c.states[0].schema
	reading, err := c.direct.RunStored(ctx, reader, params, most,
		func(key store.Key, value []byte) bool {
			returned++
			return yield(t, key, value)
		})
	if reading.Tree {
		return false, nil
	}
	if s := c.shape; s != nil {
		s.count.Add(1)
		s.scanned.Add(reading.Keys)
		s.returned.Add(returned)
	}
	return true, err
}
