// Package composite reads and writes composite keys of version 1: fields of fixed width,
// or delimited strings, joined by a delimiter, optionally after the number of a shard.
//
//	[shard 2] 1F [user_id, padded to 32] 1F [order_date 8] 1F [order_id 16]
//
// A [Schema] has the fields in their order. [Schema.CreateCompositeKey] makes a key from
// named values, which must come in that order; [Schema.Append] does the same for values
// by position. [Schema.Prefix], [Schema.BeginsWith] and [Schema.Range] give the spans of
// keys that a query reads; they are exact. [Schema.Decode] goes by the widths of the
// fields and never searches for a delimiter in what may contain one.
//
// The layout has no escapes. Values that it cannot order or distinguish are
// refused with an error that matches [ErrValue] and names field and reason; schemas that
// cannot order their strings are refused by [NewSchema]. docs/format/composite.md
// lists every case.
//
// Use it for keys that other programs read or write. For keys that only this program uses, package
// keycodec encodes the same tuples shorter and without these limits.
//
// A Schema is immutable and may be used concurrently.
package composite
