// Package engine is kstone's public API: an embedded database with partition keys, optional
// sort keys and 256 independent LSM trees that share one log.
//
// # Model
//
// A [Key] is a partition key (PK) and an optional sort key (SK). Items are ordered
// by PK bytes, then "no SK" first, then SK bytes. All items of one PK live in one
// stripe (CRC-32 of the PK mod 256); [DB.Query] reads one PK, [DB.Scan] all of them.
//
// # Concurrency
//
// A [DB], a [Snapshot] and every method of theirs may be used by any number of
// goroutines. A [Batch] and a [Tx] belong to one goroutine at a time. One process writes a
// database; any number of others read it meanwhile, with Options.ReadOnly.
//
// # Reading
//
// A [Reader], which a DB, a Snapshot and a [Tx] are, reads single keys, many keys at a moment,
// and sequences of items: [Query] one partition, [Scan] all of them between two keys,
// [Gather] several as one. An [Iterator] pulls items, both ways. [Snapshot.ScanParallel]
// spreads a scan over goroutines.
//
// # Writing
//
// Put, Delete, PutIf, DeleteIf, DeleteRange and DeleteScan are commits by themselves as
// methods of a DB, and parts of one commit as methods of a Batch or a Tx. How a write differs
// from the usual one is said by a [WriteOption]: when the item expires, where an item is
// written; how durable the commit is and how long it may wait, where something is committed.
//
// # Contexts
//
// A call takes a context if the time it takes depends on how much there is, or on others:
// sequences, reads of many keys, Apply and Update, whose batches may be large and meet
// back-pressure, Flush, Compact, Checkpoint. Reads and writes of one key do not: each is one
// lookup or one record of the log. What a write waits for at most is said by [MaxWait]. A nil
// context is an error.
//
// # Durability
//
// Each write is acknowledged at a named level, [Sync] (the default: survives a
// power cut) or [Process] (survives a kill of the process). After any crash the
// database holds a prefix of the commits in their order, over all stripes.
//
// # Ownership
//
// Keys and values passed in are copied before the call returns; the slices of a
// [Query] or [Scan] are used until its iteration ends. Slices returned by Get are the
// caller's. An [Item] of an iteration is valid in the loop body only; [Item.Clone]
// keeps it. Do not modify the slices of an item.
package engine
