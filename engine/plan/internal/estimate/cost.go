package estimate

import "math"

// Costs are the constants of the cost model, in nanoseconds. They are calibrated once
// on the machine (see engine/table) or left at their defaults, which were measured with
// the data in the cache. Only their proportions matter to the choice.
type Costs struct {
	Seek   float64 // finding the first key of a range in one stripe
	Stripe float64 // and in each other stripe, of a range of rows that all may have
	Key    float64 // reading on to the next key
	Byte   float64 // each byte of key and value on the way
	Fetch  float64 // reading a row by its key, in a batch
	Decode float64 // reading the columns of an entry, or of a row that is not left out
	Merge  float64 // a step of an ordered merge, for each doubling of the streams
	Test   float64 // evaluating a predicate on a row
	Zone   float64 // leaving out a row by the zones of its block
	Hash   float64 // putting a row into a hash table, or finding it there
	Sort   float64 // one comparison of a sort

	// Of stores on other machines; 0 in this process.
	Trip  float64 // a request and its answer
	Page  float64 // items that a request of a scan returns
	Batch float64 // keys that a request looks up
	Trees float64 // places in which a scan of all rows looks; 0 is Stripes
}

// Trips is the cost of the requests for n things, if each brings so many.
func (c *Costs) Trips(n, each float64) float64 {
	if c.Trip == 0 || n <= 0 {
		return 0
	}
	return c.Trip * math.Ceil(n/max(1, each))
}

// AllTrees is in how many places a scan of all rows looks.
func (c *Costs) AllTrees() float64 {
	if c.Trees > 0 {
		return c.Trees
	}
	return Stripes
}

// DefaultCosts is what is used without calibration.
var DefaultCosts = Costs{
	Seek: 1500, Stripe: 400, Key: 40, Byte: 0.2, Fetch: 900, Decode: 60, Merge: 10, Test: 25,
	Zone: 3, Hash: 80, Sort: 30,
}

// Stripes is the number of LSM trees a scan of all rows has to look into.
const Stripes = 256

// What is assumed about a table without statistics.
const (
	defaultRows     = 10_000
	defaultRowBytes = 120
	// defaultColumnBytes is what a column takes in an entry, defaultEntryBytes the rest.
	defaultColumnBytes = 12
	defaultEntryBytes  = 16
	// DefaultDistinct is the fraction of rows with different values of one column.
	DefaultDistinct = 0.1
	DefaultRange    = 1.0 / 3 // x < ?
	defaultPrefix   = 0.05    // x begins with ?
	defaultNull     = 0.05    // x IS NULL
	DefaultOther    = 0.5     // anything else
	// defaultList is the assumed length of a list that comes as a parameter.
	defaultList = 10
)

// sortsAtOnce is what a sort costs before its first row, in Costs.Sort: it keeps rows, which
// those that come in order need not.
const sortsAtOnce = 10

// SortCost is the cost of sorting rows if limit of them are wanted (negative: all).
func (c *Costs) SortCost(rows float64, limit int64) float64 {
	depth := rows
	if limit >= 0 {
		depth = min(rows, float64(limit)+2)
	}
	return c.Sort * (sortsAtOnce + rows*math.Log2(max(2, depth)))
}

// MergeCost is that of merging rows from streams.
func (c *Costs) MergeCost(rows float64, streams int) float64 {
	if streams < 2 {
		return 0
	}
	return rows * c.Merge * math.Log2(float64(streams))
}
