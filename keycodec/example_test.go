package keycodec_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"github.com/kstonedb/kstone/keycodec"
)

func ExampleKey() {
	user := keycodec.Key{PK: []byte("user#123")}
	post := keycodec.Key{PK: []byte("user#123"), SK: []byte("post#001")}
	empty := keycodec.Key{PK: []byte("user#123"), SK: []byte{}}
	fmt.Println(user, user.Validate())
	fmt.Println(post, post.Compare(user))
	fmt.Println(empty.Validate())
	// Output:
	// user#123 <nil>
	// user#123 / post#001 1
	// keycodec: sort key is empty; use nil for no sort key
}

func ExampleStripe() {
	for _, pk := range []string{"user#1", "user#2", "user#3"} {
		fmt.Println(pk, keycodec.Stripe([]byte(pk)))
	}
	// Output:
	// user#1 154
	// user#2 32
	// user#3 182
}

func ExampleAppendOrdered() {
	b := keycodec.AppendOrdered(nil, keycodec.Key{PK: []byte("a\x00b"), SK: []byte("c")})
	fmt.Printf("% x\n", b)
	k, _, err := keycodec.DecodeOrdered(b, nil)
	fmt.Println(k, err)
	// Output:
	// 61 00 01 62 00 00 63
	// "a\x00b" / c <nil>
}

func ExampleAppendLengthPrefixed() {
	k := keycodec.Key{PK: []byte("user#123")}
	fmt.Printf("%x\n", keycodec.AppendLengthPrefixed(nil, k))
	// Output: 00000008757365722331323300000000
}

func ExamplePrefixEnd() {
	end, ok := keycodec.PrefixEnd(nil, []byte("a\xff"))
	fmt.Printf("%q %v\n", end, ok)
	end, ok = keycodec.PrefixEnd(nil, []byte("\xff\xff"))
	fmt.Printf("%q %v\n", end, ok)
	// Output:
	// "b" true
	// "" false
}

// Without a schema, append the values in order and decode them in the same order.
func ExampleAppendString() {
	key := keycodec.AppendString(nil, "USR_12345")
	key = keycodec.AppendInt64(key, 1737100800000)

	user, rest, _ := keycodec.DecodeString(key)
	ms, rest, _ := keycodec.DecodeInt64(rest)
	fmt.Println(user, ms, len(rest))
	// Output: USR_12345 1737100800000 0
}

func ExampleInvertFrom() {
	low := keycodec.InvertFrom(keycodec.AppendInt64(nil, 1), 0)
	high := keycodec.InvertFrom(keycodec.AppendInt64(nil, 2), 0)
	fmt.Println(bytes.Compare(high, low))
	// Output: -1
}

func ExampleDecimal() {
	a, _ := keycodec.ParseDecimal("1.00")
	b := keycodec.NewDecimal(10, 1)
	c, _ := keycodec.ParseDecimal("3.14159265358979323846264338327950288")
	fmt.Println(a == b, a.Compare(c), c)
	// Output: true -1 3.14159265358979323846264338327950288
}

func ExampleSchema() {
	schema, err := keycodec.NewSchema(
		keycodec.Field{Name: "region", Type: keycodec.TypeString},
		keycodec.Field{Name: "province", Type: keycodec.TypeString, Nullable: true},
		keycodec.Field{Name: "since", Type: keycodec.TypeTime, Unit: keycodec.Second, Desc: true},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	founded := time.Date(1859, 11, 20, 0, 0, 0, 0, time.UTC)
	key, err := schema.Append(nil, "Lombardy", "Provincia di Brescia", founded)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := schema.Format(key)
	fmt.Println(text, err)
	// Output:
	// Lombardy / Provincia di Brescia / 1859-11-20T00:00:00Z <nil>
}

func ExampleSchema_Format() {
	schema, _ := keycodec.NewSchema(
		keycodec.Field{Name: "region", Type: keycodec.TypeString},
		keycodec.Field{Name: "province", Type: keycodec.TypeString},
		keycodec.Field{Name: "city", Type: keycodec.TypeString},
	)
	for _, city := range []string{"Brescia", "", "a / b"} {
		key, _ := schema.Append(nil, "Lombardy", "Provincia di Brescia", city)
		text, _ := schema.Format(key)
		fmt.Printf("[%s]\n", text)
	}
	// Output:
	// [Lombardy / Provincia di Brescia / Brescia]
	// [Lombardy / Provincia di Brescia / ]
	// [Lombardy / Provincia di Brescia / "a / b"]
}

// "U001" as a whole value, and every value that begins with "U001".
func ExampleSchema_AppendBeginsWith() {
	schema, _ := keycodec.NewSchema(keycodec.Field{Name: "user", Type: keycodec.TypeString})
	equal, _ := schema.AppendPrefix(nil, "U001")
	begins, _ := schema.AppendBeginsWith(nil, "U001")
	longer, _ := schema.Append(nil, "U0012")
	fmt.Println(bytes.HasPrefix(longer, equal), bytes.HasPrefix(longer, begins))
	// Output: false true
}

func ExampleSchema_MarshalJSON() {
	schema, _ := keycodec.NewSchema(
		keycodec.Field{Name: "user", Type: keycodec.TypeString},
		keycodec.Field{Name: "at", Type: keycodec.TypeTime, Unit: keycodec.Second, Desc: true},
	)
	form, err := json.Marshal(schema)
	fmt.Println(string(form), err)
	// Output:
	// [{"name":"user","type":"string"},{"name":"at","type":"time","unit":"s","desc":true}] <nil>
}

// Keys from structs: the newest reading of a sensor first.
func ExampleNewCodec() {
	type reading struct {
		Sensor string    `kstone:"sensor"`
		At     time.Time `kstone:"at,ms,desc"`
		Value  float64   // no part of the key
	}
	codec, err := keycodec.NewCodec[reading]()
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2025, 1, 17, 8, 0, 0, 0, time.UTC)
	older, _ := codec.Append(nil, &reading{Sensor: "roof", At: at})
	newer, _ := codec.Append(nil, &reading{Sensor: "roof", At: at.Add(time.Second)})
	fmt.Println(codec.Schema(), bytes.Compare(newer, older))

	var r reading
	err = codec.Decode(newer, &r)
	fmt.Println(r.Sensor, r.At, err)
	// Output:
	// sensor string, at time(ms) desc -1
	// roof 2025-01-17 08:00:01 +0000 UTC <nil>
}

// Two fields are read, the one between them is passed over.
func ExampleField_Skip() {
	schema, _ := keycodec.NewSchema(
		keycodec.Field{Name: "region", Type: keycodec.TypeString},
		keycodec.Field{Name: "city", Type: keycodec.TypeString},
		keycodec.Field{Name: "people", Type: keycodec.TypeUint32, Nullable: true},
	)
	key, _ := schema.Append(nil, "Lombardy", "Brescia", uint(196_000))

	fields := schema.Fields()
	region, rest, _ := fields[0].Decode(key)
	rest, _ = fields[1].Skip(rest)
	people, rest, err := fields[2].Decode(rest)
	fmt.Println(region, people, len(rest), err)
	// Output: Lombardy 196000 0 <nil>
}

// The magnitudes above 6 of one region, largest first.
func ExampleSchema_RangeSpan() {
	schema, _ := keycodec.NewSchema(
		keycodec.Field{Name: "region", Type: keycodec.TypeString},
		keycodec.Field{Name: "magnitude", Type: keycodec.TypeFloat64, Desc: true, Nullable: true},
	)
	span, _ := schema.RangeSpan([]any{"Japan"}, keycodec.Excluding(6.0), keycodec.Bound{})
	for _, magnitude := range []any{6.0, 6.1, 9.1, nil} {
		key, _ := schema.Append(nil, "Japan", magnitude)
		fmt.Println(magnitude, span.Contains(key))
	}
	// Output:
	// 6 false
	// 6.1 true
	// 9.1 true
	// <nil> false
}

// Rows after ("b", 2) by value. The second field is descending, so they are two ranges.
func ExampleSchema_RowSpans() {
	schema, _ := keycodec.NewSchema(
		keycodec.Field{Name: "a", Type: keycodec.TypeString},
		keycodec.Field{Name: "n", Type: keycodec.TypeUint8, Desc: true},
	)
	spans, _ := schema.RowSpans(nil, keycodec.Greater, "b", uint(2))
	for _, span := range spans {
		fmt.Printf("%x to %x\n", span.Start, span.End)
	}
	// Output:
	// 620000 to 620000fd
	// 620001 to
}

// The addresses of a network.
func ExampleIPRange() {
	schema, _ := keycodec.NewSchema(keycodec.Field{Name: "ip", Type: keycodec.TypeIP})
	first, last := keycodec.IPRange(netip.MustParsePrefix("10.1.2.128/25"))
	span, _ := schema.RangeSpan(nil, keycodec.Including(first), keycodec.Including(last))
	fmt.Println(first, last)
	fmt.Printf("%x to %x\n", span.Start, span.End)
	// Output:
	// 10.1.2.128 10.1.2.255
	// 040a010280 to 040a0103
}

// Without a schema, the bytes say what is in them.
func ExampleAppendTagged() {
	key, err := keycodec.AppendTagged(nil, "user", 42, keycodec.Descending{Value: true})
	fmt.Printf("%x %v\n", key, err)
	text, _ := keycodec.FormatTagged(key)
	fmt.Println(text)
	// Output:
	// 68757365720000212aee <nil>
	// "user" / 42 / true desc
}

// A collation sorts and finds names whatever their case; the case itself is kept.
func ExampleCollation() {
	schema, _ := keycodec.NewSchema(keycodec.Field{Name: "name", Type: keycodec.TypeString,
		Collation: keycodec.CollateUnicode, KeepCase: true})
	key, _ := schema.Append(nil, "Élodie")
	span, _ := schema.EqualSpan("ÉLODIE")
	values, _ := schema.Decode(key)
	fmt.Println(span.Contains(key), values[0])
	// Output: true Élodie
}
