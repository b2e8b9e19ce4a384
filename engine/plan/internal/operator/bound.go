package operator

// Bound ends what an operator does when it has read for more than what another way would cost: an
// estimate may be wrong, but then the query takes at most about twice as long as the other way.
type Bound struct {
	Cost float64 // nanoseconds
	// What reads cost: see estimate.Costs.
	Seek, Fetch, Key, Byte float64
}

// Spent is the cost of what an access has read.
func (b *Bound) Spent(a *Actual) float64 {
	return b.Seek*float64(a.Seeks-a.Fetched) + b.Fetch*float64(a.Fetched) +
		b.Key*float64(a.Keys) + b.Byte*float64(a.Bytes)
}

// Fallback returns the rows of First, if it ends within Bound; otherwise those of Then, which is
// another way to the same result. Rows of First are kept until it is known: they are few.
type Fallback struct {
	Step
	First, Then Node
	Bound       Bound
}

// Children returns First and Then.
func (n *Fallback) Children() []Node { return []Node{n.First, n.Then} }
