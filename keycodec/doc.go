// Package keycodec turns keys into bytes that sort.
//
// It has two halves. The lower half knows what the database stores: a [Key] is a
// partition key (PK) and an optional sort key (SK); [Stripe] says which of the 256
// LSM trees a partition belongs to; the ordered form ([AppendOrdered]) is what
// every memtable, block and cursor compares with bytes.Compare; the length-prefixed
// form ([AppendLengthPrefixed]) is what records of logs and dumps carry.
//
// The upper half knows typed values. Each AppendX function appends the ordered
// encoding of one value, each DecodeX function reads it back and returns the rest.
// Concatenated encodings compare like the tuples they came from, and no encoding is
// a prefix of another one of the same type, so tuples need no separators. The bytes
// carry no type codes: the reader has to know the types, which is what a [Schema]
// is for. A schema adds names, NULLs, descending fields, a JSON form and a rendering
// for people.
//
// There are three ways to go through a schema. [Schema.Append] and [Schema.Decode] take
// and return any values. A [Codec] does it for structs, whose fields carry tags, and does
// not allocate. [Field.Decode] and [Field.Skip] read fields one by one, and pass over those
// that are not wanted. Tuples without a schema are what [AppendTagged] is for.
//
// Three operations on prefixes must not be mixed up. [Schema.AppendPrefix] encodes
// the first fields completely ("region = Lombardy"). [Schema.AppendBeginsWith]
// leaves the last one open ("region starts with Lom"). [PrefixEnd] turns either
// into the exclusive end of the range of keys that start with it. Conditions become
// ranges of keys with [Schema.EqualSpan], [Schema.BeginsSpan], [Schema.RangeSpan],
// [Schema.RowSpans] and [Schema.AfterSpan].
//
// Every decoder is canonical: encoding what it returns gives the bytes it was
// given. Bytes that no encoder writes are reported as a *corrupt.Error. Decoders
// never panic, whatever the input.
//
// The functions of this package keep no state and may be called concurrently. Bytes
// are described in docs/format/keys.md.
package keycodec
