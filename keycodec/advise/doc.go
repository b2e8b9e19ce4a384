// Package advise recommends composite keys. It looks at sample records and at the queries
// that are to be fast, and says which keys to create, in which order their fields stand,
// and how each query will be answered.
//
// The rules, in their order of precedence:
//
//  1. Fields compared for equality stand before a field that is searched by range.
//  2. Queries decide, not cardinality: a field that no query needs is in no key, and a
//     field that more queries need stands further in front, so that one key serves several
//     queries. There are as few keys as the queries allow.
//  3. Within a group that rules 1 and 2 leave open, the field with more distinct values
//     stands first.
//
// Cardinalities are estimated with HyperLogLog from the sample ([Sample]), and carried over
// to the expected number of records by the rate at which they grow within the sample. How
// many records a query reads is estimated from a few thousand of them drawn at random.
// [Repeats] counts, in a second pass, the records that a recommended key does not
// distinguish.
//
// The package does no I/O. A Sample belongs to one goroutine; everything else may be used
// concurrently.
package advise
