package plan

import (
	"github.com/kstonedb/kstone/engine/plan/internal/logical"
)

// KeyOf returns the key of a query in a Cache.
func KeyOf(sel *Select) string {
	s := logical.KeyOf(sel, nil)
	defer s.Release()
	return string(s.Bytes())
}

// BoundZones returns the conditions that blocks are tested for.
func (r *Ranges) BoundZones() string { return r.zones.String() }
