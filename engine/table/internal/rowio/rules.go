package rowio

import "github.com/kstonedb/kstone/engine/schema"

// Rules are a definition of a table and what follows from it for writers. They are immutable.
type Rules struct {
	Schema  *schema.Table
	Indexed bool // there are indexes to maintain
	TTL     bool
	// Converts says that rows are converted before they are written: see Writer.stored.
	Converts bool
	// Building says that an index is being built, unique that it is a unique one.
	Building, unique bool
	expires          bool // there are entries that may expire: see bury
	identity         int  // ordinal of the identity column, -1 without
}

// NewRules returns the rules of a definition.
func NewRules(t *schema.Table) Rules {
	r := Rules{Schema: t, TTL: t.TTL != nil, Converts: t.TTL != nil || len(t.Checks) > 0}
	r.identity = t.IdentityColumn()
	r.Converts = r.Converts || r.identity >= 0
	for _, x := range t.Indexes {
		r.Indexed = r.Indexed || x.State != schema.Dropping
		r.Converts = r.Converts || x.Where != nil
		r.Building = r.Building || x.State == schema.Building
		r.unique = r.unique || x.State == schema.Building && x.Unique
	}
	r.expires = r.Indexed && t.MayExpire()
	return r
}
