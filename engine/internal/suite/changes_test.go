package suite_test

import (
	"errors"
	"fmt"
	"maps"

	"github.com/kstonedb/kstone/engine"
)

// retain makes a database retain all of its log.
func retain(o engine.Options) engine.Options {
	o.RetainBytes, o.RetainAge = 1<<40, 1<<63-1
	return o
}

// retains reports whether the database retains its log. If so it has done that from its first
// commit on.
func retains(db *engine.DB) bool {
	for _, s := range db.Settings() {
		if s.Name == "retain-bytes" {
			return s.Value != "none"
		}
	}
	return false
}

// changesAre checks that the changes of all commits, from the first on, make the state that the
// database has.
func (r *run) changesAre(db *engine.DB) error {
	if !retains(db) {
		return nil
	}
	m := items{}
	next, index := uint64(1), 0
	var end engine.Position
	for c, err := range db.Changes(ctx, engine.Position{}, &engine.ChangesOptions{Stop: true}) {
		switch {
		case err != nil:
			return fmt.Errorf("changes: %w", err)
		case c.Version != next || c.Index != index || c.Index >= c.Of ||
			c.Last != (c.Index+1 == c.Of):
			return fmt.Errorf("change %d.%d of %d, last %v, is not %d.%d", c.Version, c.Index, c.Of,
				c.Last, next, index)
		}
		if index++; c.Last {
			next, index = next+1, 0
		}
		end = c.Next()
		m.change(&c)
	}
	if last := db.Metrics().LastVersion; index != 0 || next != last+1 {
		return fmt.Errorf("changes end before %d.%d, and the last commit is %d", next, index, last)
	}
	r.tally.add("changes compared", 1)
	for c, err := range db.Changes(ctx, end, &engine.ChangesOptions{Stop: true}) {
		return errors.Join(err, fmt.Errorf("change %d.%d after the last", c.Version, c.Index))
	}
	if diff := r.latest().difference(m, r.clock.Load(), 3); diff != "" {
		return fmt.Errorf("after all changes %s", diff)
	}
	return nil
}

// change does what a change says.
func (m items) change(c *engine.Change) {
	switch c.Kind {
	case engine.ChangePut, engine.ChangePutExpiring:
		d := c.Clone()
		m[id(d.Key)] = &item{d.Key, d.Value, d.Expiry, 0}
	case engine.ChangeDelete:
		delete(m, id(c.Key))
	default:
		maps.DeleteFunc(m, func(_ string, it *item) bool { return c.Covers(it.key) })
	}
}
