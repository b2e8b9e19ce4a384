package keycodec_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// Every fuzz target asserts the same three things: no panic, errors are corruption errors
// with an offset within the input, and what is accepted encodes to itself.

func seed(f *testing.F, hexes ...string) {
	f.Helper()
	for _, s := range hexes {
		b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
		ok(f, err)
		f.Add(b)
	}
}

// refused checks the error of a decoder and reports whether there was one.
func refused(t *testing.T, b []byte, err error) bool {
	t.Helper()
	var e *corrupt.Error
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("error %v is not corruption", err)
	}
	if err != nil && (e.Offset < 0 || e.Offset > int64(len(b))) {
		t.Fatalf("offset of %v is outside %d bytes", err, len(b))
	}
	return err != nil
}

func same(t *testing.T, again, b []byte) {
	t.Helper()
	if !bytes.Equal(again, b) {
		t.Fatalf("%x was accepted but is written as %x", b, again)
	}
}

func FuzzDecodeOrdered(f *testing.F) {
	seed(f, "", "61 0000", "61 0000 62", "61 0001 0000", "0001 0001 0000 00", "00 00", "61 00 02")
	for _, b := range []byte{0, 1, 0xff} {
		run := bytes.Repeat([]byte{b}, keycodec.MaxKeyBytes)
		for n := range 2 { // the longest, and the start of the range after it
			key := keycodec.AppendOrdered(nil, keycodec.Key{PK: run, SK: run})
			f.Add(append(key, make([]byte, n)...))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testutil.Watch(b)()
		k, _, err := keycodec.DecodeOrdered(b, nil)
		n, ok := keycodec.OrderedPKLen(b)
		if refused(t, b, err) {
			return
		}
		if err := k.Validate(); err != nil {
			t.Fatal(err)
		}
		same(t, keycodec.AppendOrdered(nil, k), b)
		if !ok {
			t.Fatal("an ordered key without a partition")
		}
		same(t, keycodec.AppendOrderedPK(nil, k.PK), b[:n])
	})
}

func FuzzDecodeLengthPrefixed(f *testing.F) {
	seed(f, "", "00000001 61 00000000", "00000001 61 00000001 62 ff", "ffffffff",
		"00000000 00000000")
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testutil.Watch(b)()
		k, rest, err := keycodec.DecodeLengthPrefixed(b)
		if refused(t, b, err) {
			return
		}
		ok(t, k.Validate())
		same(t, append(keycodec.AppendLengthPrefixed(nil, k), rest...), b)
	})
}

func FuzzDecodeString(f *testing.F) {
	seed(f, "", "0000", "61 0000 ff", "61 0001 0000", "61 00", "00 02")
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testutil.Watch(b)()
		v, rest, err := keycodec.DecodeBytes(b)
		s, _, err2 := keycodec.DecodeString(b)
		if (err == nil) != (err2 == nil) || string(v) != s {
			t.Fatalf("bytes %q, %v and string %q, %v", v, err, s, err2)
		}
		if refused(t, b, err) {
			return
		}
		same(t, append(keycodec.AppendBytes(nil, v), rest...), b)
		same(t, append(keycodec.AppendString(nil, s), rest...), b)
	})
}

func FuzzDecodeDecimal(f *testing.F) {
	seed(f, "", "80", "a4 02 18 2e 44 00", "5d fd ff", "c1 80000020 02 00", "81 7fffffde 02 00",
		"7e 80000021 fd ff", "a2 01 00", "a2 02 01 00", "c1 8000001f 02 00", "7f ff",
		"81 30000000 30 00", "c1 d0000000 64 00", "81 30000000 01 64 00", "c1 d0000001 64 00")
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testutil.Watch(b)()
		d, rest, err := keycodec.DecodeDecimal(b)
		if refused(t, b, err) {
			return
		}
		same(t, append(keycodec.AppendDecimal(nil, d), rest...), b)
		if again, err := keycodec.ParseDecimal(d.String()); err != nil || again != d {
			t.Fatalf("%x reads as %s, which parses as %s, %v", b, d, again, err)
		}
	})
}

// FuzzDecodeNarrow covers the types of 32 bits and less, fixed-scale decimals and addresses.
func FuzzDecodeNarrow(f *testing.F) {
	seed(f, "", "00", "8001", "80000001", "00000000", "7fffffff", "8000000000000064",
		"04 0a000001 08", "06 20010db8000000000000000000000001 80", "04 0a000000 08")
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testutil.Watch(b)()
		if v, rest, err := keycodec.DecodeInt8(b); !refused(t, b, err) {
			same(t, append(keycodec.AppendInt8(nil, v), rest...), b)
		}
		if v, rest, err := keycodec.DecodeInt16(b); !refused(t, b, err) {
			same(t, append(keycodec.AppendInt16(nil, v), rest...), b)
		}
		if v, rest, err := keycodec.DecodeInt32(b); !refused(t, b, err) {
			same(t, append(keycodec.AppendInt32(nil, v), rest...), b)
		}
		if v, rest, err := keycodec.DecodeUint8(b); !refused(t, b, err) {
			same(t, append(keycodec.AppendUint8(nil, v), rest...), b)
		}
		if v, rest, err := keycodec.DecodeUint16(b); !refused(t, b, err) {
			same(t, append(keycodec.AppendUint16(nil, v), rest...), b)
		}
		if v, rest, err := keycodec.DecodeUint32(b); !refused(t, b, err) {
			same(t, append(keycodec.AppendUint32(nil, v), rest...), b)
		}
		if v, rest, err := keycodec.DecodeFloat32(b); !refused(t, b, err) {
			same(t, append(keycodec.AppendFloat32(nil, v), rest...), b)
		}
		if v, rest, err := keycodec.DecodeFixed(b, 7); !refused(t, b, err) {
			same(t, append(must(keycodec.AppendFixed(nil, v, 7)), rest...), b)
		}
		if v, rest, err := keycodec.DecodeIP(b); !refused(t, b, err) {
			same(t, append(must(keycodec.AppendIP(nil, v)), rest...), b)
		}
		if v, rest, err := keycodec.DecodeIPPrefix(b); !refused(t, b, err) {
			same(t, append(must(keycodec.AppendIPPrefix(nil, v)), rest...), b)
		}
	})
}

// FuzzCodec reads keys into structs; both ways and the schema have to agree.
func FuzzCodec(f *testing.F) {
	type row struct {
		Name string        `kstone:"name,unicode,keepcase"`
		Note *string       `kstone:"note,desc"`
		At   time.Time     `kstone:"at,full,desc"`
		N    *int32        `kstone:"n,nullslast"`
		IP   netip.Addr    `kstone:"ip,desc"`
		ID   keycodec.UUID `kstone:"id"`
	}
	whole, fast := must(keycodec.NewCodec[row]()), must(keycodec.NewCodec[benchOrder]())
	note := "note"
	f.Add(must(whole.Append(nil, &row{Name: "Bob", Note: &note, IP: netip.IPv6Loopback()})))
	f.Add(must(fast.Append(nil, &benchValue)))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testutil.Watch(b)()
		fuzzCodec(t, whole, b)
		fuzzCodec(t, fast, b)
	})
}

func fuzzCodec[T any](t *testing.T, c *keycodec.Codec[T], b []byte) {
	var v, view T
	err, viewErr := c.Decode(b, &v), c.DecodeView(b, &view)
	_, schemaErr := c.Schema().Decode(b)
	if (err == nil) != (viewErr == nil) || (err == nil) != (schemaErr == nil) {
		t.Fatalf("%x: Decode says %v, DecodeView %v, the schema %v", b, err, viewErr, schemaErr)
	}
	if refused(t, b, err) {
		return
	}
	same(t, must(c.Append(nil, &v)), b)
	same(t, must(c.Append(nil, &view)), b)
}

// FuzzDecodeFixed covers the numbers, times, UUIDs, bools and NULL markers.
func FuzzDecodeFixed(f *testing.F) {
	seed(f, "", "00", "01", "02", "80 00000000000000", "7fffffffffffffff", "000fffffffffffff",
		"0194733f7a007b348f2a1b2c3d4e5f60 ff")
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testutil.Watch(b)()
		if v, rest, err := keycodec.DecodeInt64(b); !refused(t, b, err) {
			same(t, append(keycodec.AppendInt64(nil, v), rest...), b)
		}
		if v, rest, err := keycodec.DecodeUint64(b); !refused(t, b, err) {
			same(t, append(keycodec.AppendUint64(nil, v), rest...), b)
		}
		if v, rest, err := keycodec.DecodeBool(b); !refused(t, b, err) {
			same(t, append(keycodec.AppendBool(nil, v), rest...), b)
		}
		if v, rest, err := keycodec.DecodeFloat64(b); !refused(t, b, err) {
			same(t, append(keycodec.AppendFloat64(nil, v), rest...), b)
		}
		if v, rest, err := keycodec.DecodeUUID(b); !refused(t, b, err) {
			same(t, append(keycodec.AppendUUID(nil, v), rest...), b)
		}
		for u := keycodec.Second; u <= keycodec.Day; u++ {
			if v, rest, err := keycodec.DecodeTime(b, u); !refused(t, b, err) {
				same(t, append(must(keycodec.AppendTime(nil, v, u)), rest...), b)
			}
		}
		for _, last := range []bool{false, true} {
			null, rest, err := keycodec.DecodeNull(b, last)
			if refused(t, b, err) {
				continue
			}
			again := keycodec.AppendNotNull(nil)
			if null {
				again = keycodec.AppendNull(nil, last)
			}
			same(t, append(again, rest...), b)
		}
	})
}

// fuzzKinds are the 29 kinds of fields that a fuzzed byte can choose.
var fuzzKinds = func() (list []keycodec.Field) {
	for typ := keycodec.TypeString; typ <= keycodec.TypeIPPrefix; typ++ {
		f := keycodec.Field{Type: typ}
		switch typ {
		case keycodec.TypeTime:
			for f.Unit = keycodec.Second; f.Unit < keycodec.FullRange; f.Unit++ {
				list = append(list, f)
			}
		case keycodec.TypeString:
			list = append(list, f)
			for f.Collation = keycodec.CollateASCII; f.Collation <= keycodec.CollateUnicode; {
				list = append(list, f)
				f.KeepCase = !f.KeepCase
				if !f.KeepCase {
					f.Collation++
				}
			}
			continue
		case keycodec.TypeFixed:
			list = append(list, f)
			f.Scale = 2
		}
		list = append(list, f)
	}
	return list
}()

func fuzzField(i int, c byte) keycodec.Field {
	f := fuzzKinds[int(c&0x1f)%len(fuzzKinds)]
	f.Name = string(rune('a' + i))
	f.Desc, f.Nullable, f.NullsLast = c&0x20 != 0, c&0x40 != 0, c&0xc0 == 0xc0
	return f
}

// FuzzSchemaDecode reads a tuple with a schema that is itself made of fuzzed bytes, one
// field for each of them.
func FuzzSchemaDecode(f *testing.F) {
	f.Add([]byte{0x10, 0x31, 0x72}, []byte("a\x00\x00"))
	f.Add([]byte{0x18}, []byte{0x80})
	f.Add([]byte{0xff, 0x06}, []byte{0xfd, 0x80, 0, 0, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, shape, b []byte) {
		defer testutil.Watch(shape, b)()
		fields := make([]keycodec.Field, min(len(shape), 8))
		for i := range fields {
			c := shape[i]
			fields[i] = fuzzField(i, c)
		}
		s := must(keycodec.NewSchema(fields...))
		n, lenErr := s.PrefixLen(b, s.Len())
		refused(t, b, lenErr)
		values, err := s.Decode(b)
		if refused(t, b, err) {
			return
		}
		first := must(s.AppendPrefix(nil, values...))
		if lenErr != nil || n != len(first) || !bytes.HasPrefix(b, first) {
			t.Fatalf("PrefixLen = %d, %v for a tuple of %d bytes", n, lenErr, len(b))
		}
		same(t, must(s.Append(nil, values...)), b)
		read := must(s.Parse(must(s.Format(b))))
		same(t, must(s.Append(nil, read...)), b)
	})
}

func FuzzSchemaJSON(f *testing.F) {
	f.Add([]byte(`[{"name":"at","type":"time","unit":"ms","desc":true}]`))
	f.Add([]byte(`[{"name":"a","type":"string","nullable":true,"nulls":"last"}]`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer testutil.Watch(text)()
		var s, again keycodec.Schema
		if json.Unmarshal(text, &s) != nil {
			return
		}
		if err := json.Unmarshal(must(json.Marshal(s)), &again); err != nil || !again.Equal(s) {
			t.Fatalf("%v reads back as %v, error %v", s, again, err)
		}
	})
}

// FuzzParse reads arbitrary text; what is accepted must survive being encoded and shown.
func FuzzParse(f *testing.F) {
	f.Add("a / 1 / 2025-01-17T08:00:00.000Z / 1.5")
	f.Add(`"\xff" / NULL / 5ms / -0`)
	s := must(keycodec.NewSchema(
		keycodec.Field{Name: "a", Type: keycodec.TypeString},
		keycodec.Field{Name: "n", Type: keycodec.TypeInt64, Nullable: true},
		keycodec.Field{Name: "at", Type: keycodec.TypeTime, Unit: keycodec.Millisecond},
		keycodec.Field{Name: "d", Type: keycodec.TypeDecimal, Desc: true},
	))
	f.Fuzz(func(t *testing.T, text string) {
		defer testutil.Watch(text)()
		values, err := s.Parse(text)
		if err != nil {
			return
		}
		b := must(s.Append(nil, values...))
		read := must(s.Parse(must(s.Format(b))))
		same(t, must(s.Append(nil, read...)), b)
	})
}

func FuzzDecodeTagged(f *testing.F) {
	for _, v := range taggedVectors {
		seed(f, v.hex)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testutil.Watch(b)()
		elements, err := keycodec.DecodeTagged(b)
		if refused(t, b, err) {
			return
		}
		same(t, must(keycodec.AppendTagged(nil, elements...)), b)
		must(keycodec.FormatTagged(b))
	})
}

// FuzzParseValue reads text as a value of every type; what is accepted and can be encoded
// must survive being shown.
func FuzzParseValue(f *testing.F) {
	for kind, text := range []string{"a", `"\xff"`, "-5", "1.5", "NaN", "2025-01-17T08:00:00Z",
		"-1.5s", "12345.67", "::1", "10.0.0.0/8", "true", "NULL"} {
		f.Add(byte(kind), text)
		f.Add(byte(kind+12), text)
	}
	f.Fuzz(func(t *testing.T, kind byte, text string) {
		defer testutil.Watch(kind, text)()
		field := fuzzField(0, kind)
		s := must(keycodec.NewSchema(field))
		v, err := field.ParseValue(text)
		if err != nil {
			return
		}
		b, err := s.Append(nil, v)
		if err != nil {
			return // a time out of range, a decimal with more places, an address with a zone
		}
		read := must(s.Parse(must(s.Format(b))))
		same(t, must(s.Append(nil, read...)), b)
	})
}
