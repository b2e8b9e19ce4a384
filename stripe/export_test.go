package stripe

// Source is one memtable or run under a Cursor, for tests of it alone.
type Source = source

// Approach is approach.
var Approach = approach

// Sources returns those of the first stripe added.
func (c *Cursor) Sources() []*Source { return c.readings[0].sources[:c.readings[0].used] }

// Sparse reports whether the source is closed between its rows, and InUse whether it is open now.
func (s *source) Sparse() bool { return s.files.sparse }
func (s *source) InUse() bool  { return s.files.cursor != nil }

// Restrict is restrict.
func (s *source) Restrict(b *Bounds) { s.restrict(b) }
