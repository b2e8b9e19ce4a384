// Package store is the interface through which tables, indexes and plans reach storage.
// It is implemented by the engine of this process (package engine/local), by its transactions, and
// by ordered key/value engines on other machines, whose packages are modules of their own. It
// imports none of them; [Open] finds one by the scheme of a URL.
//
// It is small on purpose: what an implementation must have is what ordered engines have in
// common. [Store] reads single keys, many keys, and ranges in both directions; it commits
// a [WriteSet] with its conditions as one; it takes snapshots; it states its limits; it
// keeps a few named values. What only some can do is optional: abilities.go has all of it, with
// what is done without.
//
// # Conditions are data
//
// A write set says what it requires of a key: that there is no item, that there is one,
// that its value or version is a certain one. So a remote engine needs one request, and the
// local one checks under the locks of its commit. All conditions are about the state before
// the write set, whatever the set itself writes, and all of them are checked in one step
// with the writes.
//
// # Errors
//
// A caller distinguishes, with errors.Is: [ErrConditionFailed] (final: the state is another
// one; a [ConditionError] names the operation), [ErrConflict] (read and decide again),
// [ErrUnknown] (it may have been written or not), [ErrTooLarge] (split it, see [Limits]).
// After all of them but ErrUnknown nothing has been written. Reads of a snapshot may end with
// [ErrStale], if the store keeps old versions for a limited time.
//
// Package storetest has the checks that every implementation must pass.
package store
