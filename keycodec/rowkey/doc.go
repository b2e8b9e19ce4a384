// Package rowkey reads and writes keys of several parts in the layout of row-key
// builders: parts are joined by 00 00, and a 00 inside a part is written 00 01.
//
// Keys compare like their parts, compared one after the other. Decoding goes from left
// to right and is exact: n separators make n+1 parts, also if the last one is empty.
//
// Values that the layout cannot order or distinguish are refused. A key of no parts and a key of
// one empty part would both be no bytes at all: [Builder.Drain] makes neither. Negative
// integers would sort after the positive ones, because the layout writes integers
// without flipping their sign: [Builder.AddInt64] does not take them.
//
// Integers of varying size are also possible, as the varint of SQLite 4
// ([AppendVarint]), whose encodings compare like the integers.
//
// Use it for keys that other programs read or write. For keys that only this program uses, package
// keycodec has more types, descending fields, and shorter integers.
//
// A Builder belongs to one goroutine; everything else may be used concurrently. The
// bytes are described in docs/format/rowkey.md.
package rowkey
