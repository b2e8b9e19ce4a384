// Package plan turns a query into steps that an executor runs: it chooses indexes,
// the order and the method of joins, and where sorting can be left out.
//
// The package is pure. It sees tables, statistics and predicates and returns trees; it
// does no I/O, reads no clock and keeps no state beside a [Cache].
//
// # From a query to rows
//
//	Select --Prepare--> Prepared --Bind(values)--> Plan --executor--> rows
//
// A [Select] says what is wanted. [Prepare] resolves names, checks types, normalises
// predicates and chooses access paths and joins: everything that does not depend on
// the values of parameters. [Prepared.Bind] takes these values and decides the rest:
// the spans of every index, whether a condition can be true at all, and everything
// about NULL. A Prepared may be kept and bound any number of times; it freezes nothing
// that depends on a value.
//
// Package spans turns predicates on the columns of an index into ranges of its entries and
// those into buckets. The algorithm is described in docs/planner.md.
package plan
