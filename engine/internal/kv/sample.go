package kv

import "math/rand/v2"

// Sample selects items at random.
type Sample struct {
	// From and To restrict the keys, as those of Scan: From is included, To is not.
	From, To Key
	// Parts is how many small parts of the range are read: each is about one block of every
	// run that has the keys, or less. It is at least 1. A range of not more than about so
	// many blocks is read completely.
	Parts int
	// Rand chooses the parts; nil is a random choice.
	Rand *rand.Rand
}

// Sampled is an item of a sample.
type Sampled struct {
	Item
	// Weight is how many items of the range the item stands for: 1 if all of it is read. The
	// sum of the weights estimates the number of items, and that of any kind of them,
	// without bias.
	Weight float64
}
