// Package rowio is what package table and the layers on it have in common and users do not
// see: rows on their way into a commit, with the entries of their indexes (Writer), and out of
// a query, in the form in which they are stored (Request, Sink).
//
// It knows a definition and a store, and no DB: it does not know when a definition changes,
// when a commit is repeated, or what waits for it.
package rowio
