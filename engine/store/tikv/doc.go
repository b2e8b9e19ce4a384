// Package tikv is a store.Store over TiKV, an ordered key/value store that divides its keys into
// regions, and each region among several machines.
//
// [Open] opens a database of a cluster by URL, [New] one of a client that is open already. Package
// tikvtest has a cluster in this process.
//
// # Reads
//
// A read is as of one timestamp of the cluster, which costs a round trip, but for the read of a
// single key, or of a range with one request, which needs none: see late.go. A snapshot is a
// timestamp: it holds nothing, and it ends, with store.ErrStale, when the cluster drops old
// versions (see [Store.GC]). Keys have the stripe of their partition in front (remote.Layout), so
// that partitions spread over regions; ranges of one partition are read from one place, intervals
// of partitions from 256 at the same time.
//
// # Commits
//
// A write set is an optimistic transaction. Its conditions are read at its timestamp. The cluster
// refuses it if a key that it writes has been written since; keys with conditions that it does not
// write are locked with the others, as snapshot isolation alone checks nothing about them. A key
// that must be absent and is put is not read: the cluster checks it when it writes. A conflict has
// written nothing, so Commit tries again by itself before it reports store.ErrConflict.
//
// With asynchronous and one-phase commits, which are on, a commit takes two round trips: the
// timestamp and the writes. Without them it takes four. Conditions that are read take no other
// trip if a timestamp of an earlier commit is at hand: see stamps.go. The commit comes after one
// that is taken inside the same call of Commit, so commits that follow one another have ascending
// timestamps.
//
// Transactions are optimistic: see tx.go.
//
// Items have no versions: the client does not return the timestamp of a value.
package tikv
