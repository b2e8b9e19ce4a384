// Package etcd is a store.Store over etcd: a small database that several machines keep whole.
//
// [Open] opens a database by URL, [New] one of a client that is open already. Package etcdtest has
// clusters of real members in this process.
//
// etcd is one Raft group: all members have all data, about 8 GiB at most, and each write goes
// through one leader. It is a store that survives machines, not one that grows with them.
//
// A snapshot is a revision, which the first answer of a read fixes, so that no read needs a round
// trip for it. It ends, with store.ErrStale, when etcd compacts its history. An item's version is
// the revision that has written it. A write set is one transaction of etcd, with its conditions as
// comparisons: one round trip. It has at most 127 operations and 1.25 MiB, the limits of a server
// with its default settings less what a request needs itself. Transactions are optimistic: see
// tx.go.
//
// A server walks over the whole range that it reads a page of, and sorts all of it if the page is
// in descending order. So ranges within a partition are cheap, and intervals of partitions are not:
// reading n items in pages costs a server n²/4096 steps.
package etcd
