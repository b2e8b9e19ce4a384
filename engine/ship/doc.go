// Package ship copies a running database to a destination, such as a directory or an object store,
// and restores any commit of it.
//
// A Shipper puts a base, which is a full copy that shares what it can with the bases before, and
// from then on what is committed, every second. Restore makes a database of the last commit, or of
// an earlier one by version or time. Shipping costs writers next to nothing: it reads files.
//
//	s, err := ship.Start(db, ship.Directory("/mnt/backup/orders"), nil)
//	…
//	err = s.Close(ctx) // ships the rest
//
//	at, err := ship.Restore(ctx, ship.Directory("/mnt/backup/orders"), "orders.db", nil)
//
// docs/format/ship.md has the objects, docs/decisions/0035-shipping.md the reasons.
package ship
