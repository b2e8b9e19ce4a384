// Package access keeps records under several composite keys at once, so that each way of
// looking for them is one seek and a walk over neighbours.
//
// A [Collection] has a primary key, which names a record, and parallel keys for access
// patterns that conflict with it: orders by user and time, and the same orders by category
// and time. All keys of a record are written in one commit. A parallel key must contain
// the fields of the primary key: they tell its records apart, and lead to the payload.
//
// [Collection.ExactLookup], [Collection.PrefixScan] and [Collection.RangeScan] take the
// fields that are known and choose the key that begins with them. If there is none, they
// fail and say what would have to be skipped: nothing is ever scanned in search of it.
//
// Keys have the layout of package keycodec/composite. With shards, each shard is a
// partition of its own; without, all keys of one kind are one partition. The stored form
// is described in docs/format/composite.md.
//
// A Collection may be used concurrently.
package access
