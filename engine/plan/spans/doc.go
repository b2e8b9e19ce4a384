// Package spans turns predicates on the columns of a key into ranges of its encoded entries.
// It knows keys and predicates, and no queries, plans or statistics.
//
// A predicate is first normalised ([Normalise]): comparisons of a column with a constant, below
// AND and OR. [Compile] keeps what does not depend on the values of parameters as a [Template];
// a [Builder] makes the [Set] of spans for given values: sorted, disjoint, and with a residual
// predicate for what ranges cannot say. [Shard] divides the spans of a sharded index among its
// buckets, after the spans are finished: no predicate ever speaks of buckets.
//
// docs/planner.md describes the algorithm.
package spans
