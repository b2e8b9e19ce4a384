package keycodec_test

import (
	"bytes"
	"errors"
	"math"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

var ok = testutil.OK

type named string

// everything has a field of every type that a key can hold.
type everything struct {
	S     string           `kstone:"s"`
	Name  named            `kstone:"name,desc"`
	Fold  string           `kstone:"fold,unicode,keepcase"`
	B     []byte           `kstone:"b"`
	BDesc []byte           `kstone:"bd,desc"`
	I     int              `kstone:"i"`
	I8    int8             `kstone:"i8"`
	I16   int16            `kstone:"i16,desc"`
	I32   int32            `kstone:"i32"`
	I64   int64            `kstone:"i64,desc"`
	U     uint             `kstone:"u"`
	U8    uint8            `kstone:"u8,desc"`
	U16   uint16           `kstone:"u16"`
	U32   uint32           `kstone:"u32"`
	U64   uint64           `kstone:"u64"`
	Bool  bool             `kstone:"bool"`
	F32   float32          `kstone:"f32"`
	F64   float64          `kstone:"f64,desc"`
	At    time.Time        `kstone:"at,ms"`
	Full  time.Time        `kstone:"full,full,desc"`
	ID    keycodec.UUID    `kstone:"id"`
	Raw   [16]byte         `kstone:"raw,desc"`
	Dec   keycodec.Decimal `kstone:"dec,desc"`
	Price keycodec.Decimal `kstone:"price,decimal(2)"`
	Cents int64            `kstone:"cents,decimal(2)"`
	IP    netip.Addr       `kstone:"ip,desc"`
	Net   netip.Prefix     `kstone:"net"`
	Note  *string          `kstone:"note,nullslast"`
	Count *int32           `kstone:",desc"`
	Tag   *named           `kstone:"tag,ascii,keepcase"`
	Other string
	Not   string `kstone:"-"`
}

// values lists the fields of the key as Schema.Append takes them.
func (e *everything) values() []any {
	out := []any{
		e.S, string(e.Name), e.Fold, e.B, e.BDesc, e.I, e.I8, e.I16, e.I32, e.I64, e.U, e.U8,
		e.U16, e.U32, e.U64, e.Bool, e.F32, e.F64, e.At, e.Full, e.ID, e.Raw, e.Dec, e.Price,
		keycodec.NewDecimal(e.Cents, 2), e.IP, e.Net, nil, nil, nil,
	}
	if e.Note != nil {
		out[27] = *e.Note
	}
	if e.Count != nil {
		out[28] = *e.Count
	}
	if e.Tag != nil {
		out[29] = string(*e.Tag)
	}
	return out
}

func drawEverything(t *rapid.T) everything {
	text := func(name string) string { return string(awkward(0).Draw(t, name)) }
	e := everything{
		S: text("s"), Name: named(text("name")), Fold: rapid.String().Draw(t, "fold"),
		B: awkward(0).Draw(t, "b"), BDesc: awkward(0).Draw(t, "bd"),
		I: rapid.Int().Draw(t, "i"), I8: rapid.Int8().Draw(t, "i8"),
		I16: rapid.Int16().Draw(t, "i16"), I32: rapid.Int32().Draw(t, "i32"),
		I64: rapid.Int64().Draw(t, "i64"), U: rapid.Uint().Draw(t, "u"),
		U8: rapid.Uint8().Draw(t, "u8"), U16: rapid.Uint16().Draw(t, "u16"),
		U32: rapid.Uint32().Draw(t, "u32"), U64: rapid.Uint64().Draw(t, "u64"),
		Bool: rapid.Bool().Draw(t, "bool"), F32: rapid.Float32Max(-1).Draw(t, "f32"),
		F64:   rapid.Float64Min(1).Draw(t, "f64"),
		At:    drawTime(t, keycodec.Millisecond),
		Full:  drawTime(t, keycodec.FullRange),
		Dec:   decimal(decimalTexts().Draw(t, "dec")),
		Price: keycodec.NewDecimal(rapid.Int64().Draw(t, "price"), 2),
		Cents: rapid.Int64().Draw(t, "cents"),
		IP:    drawIP(t), Net: netip.PrefixFrom(drawIP(t), 7).Masked(),
	}
	copy(e.ID[:], awkward(0).Draw(t, "id"))
	copy(e.Raw[:], awkward(0).Draw(t, "raw"))
	if rapid.Bool().Draw(t, "has note") {
		note := text("note")
		e.Note = &note
	}
	if rapid.Bool().Draw(t, "has count") {
		count := rapid.Int32().Draw(t, "count")
		e.Count = &count
	}
	if rapid.Bool().Draw(t, "has tag") {
		tag := named(rapid.String().Draw(t, "tag"))
		e.Tag = &tag
	}
	return e
}

// TestCodecIsSchema compares keys of structs with those of their values.
//
// Promise (keys): Struct codecs and fields agree with the schema, and codecs allocate nothing. Also
// `TestCodecAllocatesNothing`, `TestFieldsReadTuples` in `keycodec`.
func TestCodecIsSchema(t *testing.T) {
	c := must(keycodec.NewCodec[everything]())
	testutil.Check(t, func(t *rapid.T) {
		e := drawEverything(t)
		want := must(c.Schema().Append(nil, e.values()...))
		key, err := c.Append([]byte("dst"), &e)
		if err != nil || !bytes.Equal(key[3:], want) || string(key[:3]) != "dst" {
			t.Fatalf("%+v is %x, error %v; want %x", e, key, err, want)
		}
		for name, decode := range map[string]func([]byte, *everything) error{
			"Decode": c.Decode, "DecodeView": c.DecodeView,
		} {
			got := everything{Other: "other", Not: "not", Note: new(string), Tag: new(named)}
			in := bytes.Clone(want)
			if err := decode(in, &got); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if name == "Decode" {
				clear(in) // nothing may have been kept
			}
			if got.Other != "other" || got.Not != "not" {
				t.Fatalf("%s changed a field that is not in the key", name)
			}
			got.Other, got.Not = "", ""
			if !reflect.DeepEqual(got, e) {
				t.Fatalf("%s: %+v reads back as %+v", name, e, got)
			}
			longer := append(bytes.Clone(want), 0)
			if err := decode(longer, &got); !errors.Is(err, corrupt.ErrCorrupt) {
				t.Fatalf("%s of a longer key: error %v", name, err)
			}
			if err := decode(want[:len(want)-1], &got); !errors.Is(err, corrupt.ErrCorrupt) {
				t.Fatalf("%s of a shorter key: error %v", name, err)
			}
		}
	})
}

// TestCodecFastPath compares the path for frequent fields with the schema: for every
// length of string, with and without zero bytes, and with and without room.
func TestCodecFastPath(t *testing.T) {
	type row struct {
		A string        `kstone:"a"`
		I int64         `kstone:"i"`
		U uint64        `kstone:"u"`
		D keycodec.UUID `kstone:"d"`
		B string        `kstone:"b"`
	}
	c := must(keycodec.NewCodec[row]())
	testutil.Check(t, func(t *rapid.T) {
		letters := rapid.SampledFrom([]byte("ab\x01\x80\xff"))
		text := func(name string) string {
			longest := rapid.SampledFrom([]int{7, 16, 80}).Draw(t, "longest")
			b := rapid.SliceOfN(letters, 0, longest).Draw(t, name)
			if len(b) > 0 && rapid.IntRange(0, 4).Draw(t, "zero") == 0 {
				b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = 0
			}
			return string(b)
		}
		v := row{text("a"), rapid.Int64().Draw(t, "i"), rapid.Uint64().Draw(t, "u"),
			keycodec.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "d")), text("b")}
		want := must(c.Schema().Append(nil, v.A, v.I, v.U, v.D, v.B))
		// The room for the key is in the middle of memory that nothing may touch.
		around := bytes.Repeat([]byte{0xee}, 400)
		start := rapid.IntRange(0, 3).Draw(t, "len")
		limit := start + rapid.IntRange(0, 300).Draw(t, "room")
		got := must(c.Append(around[:start:limit], &v))
		if !bytes.Equal(got[start:], want) {
			t.Fatalf("%+v is %x, want %x", v, got[start:], want)
		}
		for i, b := range around {
			if inRoom := i >= start && i < min(limit, start+len(want)); !inRoom && b != 0xee {
				t.Fatalf("byte %d outside of the key was changed", i)
			}
		}
		var back row
		if err := c.DecodeView(want, &back); err != nil || back != v {
			t.Fatalf("%x reads as %+v, error %v; want %+v", want, back, err, v)
		}
		in, copied := bytes.Clone(want), row{}
		ok(t, c.Decode(in, &copied))
		if clear(in); copied != v {
			t.Fatalf("Decode has kept a view of the key: %+v, want %+v", copied, v)
		}
		cut := rapid.IntRange(0, len(want)-1).Draw(t, "cut")
		if err := c.DecodeView(want[:cut], &back); !errors.Is(err, corrupt.ErrCorrupt) {
			t.Fatalf("%x: error %v", want[:cut], err)
		}
	})
}

func TestCodecAllocatesNothing(t *testing.T) {
	type row struct {
		User string        `kstone:"user"`
		Name string        `kstone:"name,ascii"`
		At   time.Time     `kstone:"at,ms,desc"`
		N    int32         `kstone:"n,desc"`
		ID   keycodec.UUID `kstone:"id"`
		IP   netip.Addr    `kstone:"ip,desc"`
	}
	c, plain := must(keycodec.NewCodec[row]()), must(keycodec.NewCodec[benchOrder]())
	v := row{"u", "Müller", time.UnixMilli(5), 7, keycodec.UUID{1}, netip.MustParseAddr("::1")}
	dst, short := make([]byte, 0, 256), make([]byte, 0, 256)
	var out benchOrder
	if n := testing.AllocsPerRun(100, func() {
		dst = must(c.Append(dst[:0], &v))
		short = must(plain.Append(short[:0], &benchValue))
		ok(t, plain.DecodeView(short, &out))
	}); n != 0 {
		t.Errorf("encoding and decoding views allocate %v times, want 0", n)
	}
	v.Name = ""
	dst = must(c.Append(dst[:0], &v))
	if n := testing.AllocsPerRun(100, func() {
		ok(t, c.DecodeView(dst, &v))
	}); n != 0 {
		t.Errorf("decoding descending fields allocates %v times, want 0", n)
	}
}

func TestCodecRefusesValues(t *testing.T) {
	c := must(keycodec.NewCodec[everything]())
	good := everything{IP: netip.IPv6Loopback(), Net: netip.MustParsePrefix("::/0")}
	for name, spoil := range map[string]func(*everything){
		"a time out of range": func(e *everything) { e.At = time.Unix(math.MaxInt64-1e12, 0) },
		"too many places":     func(e *everything) { e.Price = keycodec.NewDecimal(1, 3) },
		"no IP address":       func(e *everything) { e.IP = netip.Addr{} },
		"bits after it":       func(e *everything) { e.Net = netip.MustParsePrefix("10.0.0.1/8") },
	} {
		e := good
		if _, err := c.Append(nil, &e); err != nil {
			t.Fatal(err)
		}
		spoil(&e)
		if got, err := c.Append([]byte("dst"), &e); err == nil || string(got) != "dst" {
			t.Errorf("%s: %q, error %v; want an error and dst", name, got, err)
		}
	}
}

func schemaError[T any]() error { _, err := keycodec.SchemaOf[T](); return err }

func TestSchemaOf(t *testing.T) {
	type row struct {
		User  string            `kstone:"user,ascii,keepcase"`
		At    *time.Time        `kstone:"at,us,desc,nullslast"`
		Price *keycodec.Decimal `kstone:"price,decimal(4)"`
		ID    [16]byte          `kstone:""`
		Note  string
	}
	want := "user string collate ascii keepcase, at time(us) desc null last, " +
		"price fixed(4) null first, ID uuid"
	if s, err := keycodec.SchemaOf[row](); err != nil || s.String() != want {
		t.Errorf("schema %q, error %v; want %q", s, err, want)
	}
}

func TestSchemaOfRefuses(t *testing.T) {
	for name, err := range map[string]error{
		"no struct": schemaError[int](),
		"no tag":    schemaError[struct{ A int }](),
		"unexported": schemaError[struct {
			a int `kstone:"a"`
		}](),
		"a map": schemaError[struct {
			A map[int]int `kstone:"a"`
		}](),
		"a slice of ints": schemaError[struct {
			A []int `kstone:"a"`
		}](),
		"a short array": schemaError[struct {
			A [4]byte `kstone:"a"`
		}](),
		"pointer twice": schemaError[struct {
			A **int `kstone:"a"`
		}](),
		"an unknown option": schemaError[struct {
			A int `kstone:"a,asc"`
		}](),
		"an empty option": schemaError[struct {
			A int `kstone:"a,"`
		}](),
		"no unit": schemaError[struct {
			A time.Time `kstone:"a"`
		}](),
		"a unit of an int": schemaError[struct {
			A int64 `kstone:"a,ms"`
		}](),
		"a scale of text": schemaError[struct {
			A string `kstone:"a,decimal(2)"`
		}](),
		"a scale of ten": schemaError[struct {
			A int64 `kstone:"a,decimal(ten)"`
		}](),
		"an open scale": schemaError[struct {
			A int64 `kstone:"a,decimal(2"`
		}](),
		"a large scale": schemaError[struct {
			A int64 `kstone:"a,decimal(19)"`
		}](),
		"collated bytes": schemaError[struct {
			A []byte `kstone:"a,ascii"`
		}](),
		"case of bytes": schemaError[struct {
			A string `kstone:"a,keepcase"`
		}](),
		"NULLs of a value": schemaError[struct {
			A int `kstone:"a,nullslast"`
		}](),
		"two of a name": schemaError[struct {
			A, B int `kstone:"a"`
		}](),
	} {
		if err == nil && name != "an empty option" || err != nil && name == "an empty option" {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
