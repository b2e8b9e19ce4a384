package rowkey_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec/rowkey"
)

var ok = testutil.OK

// build joins byte parts to a key.
func build(parts ...[]byte) ([]byte, error) {
	b := new(rowkey.Builder)
	for _, p := range parts {
		b.AddBytes(p)
	}
	return b.Drain()
}

// split returns all parts of a key.
func split(raw []byte) ([][]byte, error) {
	k, err := rowkey.Parse(raw)
	if err != nil {
		return nil, err
	}
	parts := make([][]byte, k.Len())
	for i := range parts {
		if parts[i], err = k.Bytes(i); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

// The example of the layout's description: a string, an int64 and bytes.
func TestGoldenKey(t *testing.T) {
	key, err := new(rowkey.Builder).AddString("building").AddInt64(123).
		AddBytes([]byte{4, 0, 5}).Drain()
	want := "6275696c64696e67" + "0000" + "00010001000100010001000100017b" + "0000" + "04000105"
	if got := hex.EncodeToString(key); got != want || err != nil {
		t.Fatalf("key %s, error %v, want %s", got, err, want)
	}
	k, err := rowkey.Parse(key)
	ok(t, err)
	s, err0 := k.String(0)
	v, err1 := k.Int64(1)
	b, err2 := k.Bytes(2)
	if s != "building" || v != 123 || !bytes.Equal(b, []byte{4, 0, 5}) {
		t.Errorf("read %q, %d, %x", s, v, b)
	}
	ok(t, errors.Join(err0, err1, err2))
	if k.Offset(1) != 10 {
		t.Errorf("the integer begins at %d, want 10", k.Offset(1))
	}
}

// Promise (keys): Row keys and varints sort, and lose no empty part. Also `TestOrderExhaustive`,
// `TestTrailingEmptyParts`, `TestVarintVectors`, `TestVarintOrder` in `keycodec/rowkey`.
func TestBuildingsInOrder(t *testing.T) {
	var keys [][]byte
	for _, n := range []int64{10, 2, 20, 1} {
		key, err := new(rowkey.Builder).AddString("Building").AddInt64(n).Drain()
		ok(t, err)
		keys = append(keys, key)
	}
	slices.SortFunc(keys, bytes.Compare)
	for i, want := range []int64{1, 2, 10, 20} {
		k, err := rowkey.Parse(keys[i])
		ok(t, err)
		if got, err := k.Int64(1); got != want || err != nil {
			t.Errorf("place %d: Building#%d, error %v, want #%d", i, got, err, want)
		}
	}
}

// What the layout cannot order or tell apart.
func TestRefused(t *testing.T) {
	if _, err := new(rowkey.Builder).Drain(); !errors.Is(err, rowkey.ErrNoParts) {
		t.Errorf("a key of no parts: %v", err)
	}
	if _, err := build(nil); !errors.Is(err, rowkey.ErrNoParts) {
		t.Errorf("a key of one empty part: %v", err)
	}
	b := new(rowkey.Builder).AddInt64(-1).AddString("x")
	if _, err := b.Drain(); !errors.Is(err, rowkey.ErrNegative) {
		t.Errorf("a negative integer: %v", err)
	}
	if key, err := b.AddString("x").Drain(); string(key) != "x" || err != nil {
		t.Errorf("after an error the builder gives %x, %v", key, err)
	}
	if _, err := b.AddInt64(-1).DrainPrefix(); !errors.Is(err, rowkey.ErrNegative) {
		t.Errorf("a negative integer in a prefix: %v", err)
	}
}

// A trailing empty part is not lost, as it is where keys are split at separators.
func TestTrailingEmptyParts(t *testing.T) {
	for _, parts := range [][][]byte{{{'a'}, {}}, {{'a'}, {}, {}}, {{}, {}}, {{}, {'a'}},
		{{'a'}, {}, {'b'}}} {
		key, err := build(parts...)
		ok(t, err)
		if got, err := split(key); err != nil || !slices.EqualFunc(got, parts, bytes.Equal) {
			t.Errorf("%q came back as %q, error %v", parts, got, err)
		}
	}
}

// Only a reader that goes from left to right finds the separator of 78 00 00 00 01 05.
func TestSeparatorBeforeZeroByte(t *testing.T) {
	parts, err := split([]byte{0x78, 0, 0, 0, 1, 5})
	if err != nil || !slices.EqualFunc(parts, [][]byte{{0x78}, {0, 5}}, bytes.Equal) {
		t.Errorf("parts %x, error %v", parts, err)
	}
}

func TestParseDamage(t *testing.T) {
	for _, c := range []struct {
		key    string
		offset int64
	}{{"", 0}, {"00", 0}, {"6100", 1}, {"610002", 1}, {"610000610003", 4}, {"000100", 2}} {
		raw, _ := hex.DecodeString(c.key)
		_, err := rowkey.Parse(raw)
		var damage *corrupt.Error
		if !errors.As(err, &damage) || damage.Offset != c.offset {
			t.Errorf("%s: error %v, want one at offset %d", c.key, err, c.offset)
		}
	}
	key, _ := new(rowkey.Builder).AddString("a").AddString("bc").Drain()
	k, err := rowkey.Parse(key)
	ok(t, err)
	if _, err := k.Int64(1); !errors.Is(err, corrupt.ErrCorrupt) {
		t.Errorf("text was read as an integer: %v", err)
	}
	if _, err := k.Varint(1); !errors.Is(err, corrupt.ErrCorrupt) {
		t.Errorf("text was read as a varint: %v", err)
	}
	for _, i := range []int{-1, 2} {
		if _, err := k.String(i); err == nil {
			t.Errorf("there is a part %d", i)
		}
		if _, err := k.Int64(i); err == nil {
			t.Errorf("there is an integer %d", i)
		}
		if _, err := k.Varint(i); err == nil {
			t.Errorf("there is a varint %d", i)
		}
	}
}

// A negative integer of another program can be read, though not written.
func TestReadsNegative(t *testing.T) {
	key, err := new(rowkey.Builder).AddBytes(bytes.Repeat([]byte{0xff}, 8)).Drain()
	ok(t, err)
	k, err := rowkey.Parse(key)
	ok(t, err)
	if v, err := k.Int64(0); v != -1 || err != nil {
		t.Errorf("read %d, error %v", v, err)
	}
}

// All tuples of up to three parts over bytes that matter compare like their keys, and no
// two have the same key.
func TestOrderExhaustive(t *testing.T) {
	alphabet := []byte{0x00, 0x01, 0x02, 0xff}
	var words [][]byte
	for n := range 3 {
		for code := range 1 << (2 * n) {
			w := make([]byte, n)
			for i := range w {
				w[i] = alphabet[code>>(2*i)&3]
			}
			words = append(words, w)
		}
	}
	var tuples [][][]byte
	for _, a := range words {
		tuples = append(tuples, [][]byte{a})
		for _, b := range words {
			tuples = append(tuples, [][]byte{a, b}, [][]byte{a, b, {}})
		}
	}
	compareAll(t, tuples)
}

func compareAll(t *testing.T, tuples [][][]byte) {
	t.Helper()
	keys := make([][]byte, len(tuples))
	for i, tuple := range tuples {
		key, err := build(tuple...)
		if err != nil {
			if len(tuple) == 1 && len(tuple[0]) == 0 {
				continue
			}
			t.Fatalf("%x: %v", tuple, err)
		}
		keys[i] = key
	}
	for i, a := range tuples {
		for j, b := range tuples {
			want := slices.CompareFunc(a, b, bytes.Compare)
			if got := bytes.Compare(keys[i], keys[j]); got != want {
				t.Fatalf("%x and %x compare %d, their keys %d", a, b, want, got)
			}
		}
	}
}

func TestOrderRandom(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		part := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 0, 1, 2, 'a', 0xff}), 0, 6)
		tuple := rapid.SliceOfN(part, 1, 4)
		a, b := tuple.Draw(t, "a"), tuple.Draw(t, "b")
		ka, errA := build(a...)
		kb, errB := build(b...)
		if errA != nil || errB != nil {
			t.Skip("no key")
		}
		want := slices.CompareFunc(a, b, bytes.Compare)
		if got := bytes.Compare(ka, kb); got != want {
			t.Fatalf("%x and %x compare %d, their keys %d", a, b, want, got)
		}
		if got, err := split(ka); err != nil || !slices.EqualFunc(got, a, bytes.Equal) {
			t.Fatalf("%x came back as %x, error %v", a, got, err)
		}
		// A prefix of complete parts finds exactly the keys that go on with more parts.
		p := new(rowkey.Builder)
		for _, part := range a {
			p.AddBytes(part)
		}
		prefix, err := p.DrainPrefix()
		ok(t, err)
		has := len(b) > len(a) && slices.EqualFunc(a, b[:len(a)], bytes.Equal)
		if got := bytes.HasPrefix(kb, prefix); got != has {
			t.Fatalf("%x under the prefix %x: %v, want %v", b, a, got, has)
		}
	})
}

// Strings and bytes are the same part.
func TestStringIsBytes(t *testing.T) {
	for _, s := range []string{"", "a", "\x00", "a\x00\x00b", "\xff"} {
		a, _ := new(rowkey.Builder).AddString("x").AddString(s).Drain()
		b, _ := new(rowkey.Builder).AddString("x").AddBytes([]byte(s)).Drain()
		if !bytes.Equal(a, b) {
			t.Errorf("%q is %x as a string, %x as bytes", s, a, b)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"61", "610000", "00010000", "00000000", "780000000105", "6100",
		"6275696c64696e67000000010001000100010001000100017b000004000105"} {
		raw, _ := hex.DecodeString(s)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		defer testutil.Watch(raw)()
		parts, err := split(raw)
		if err != nil {
			var c *corrupt.Error
			if !errors.As(err, &c) || c.Offset < 0 || c.Offset > int64(len(raw)) {
				t.Fatalf("error %v for %x", err, raw)
			}
			return
		}
		if again, err := build(parts...); err != nil || !bytes.Equal(again, raw) {
			t.Fatalf("%x came back as %x, error %v", raw, again, err)
		}
	})
}

// The borders of the nine size classes.
func TestVarintVectors(t *testing.T) {
	for v, want := range map[uint64]string{
		0: "00", 1: "01", 240: "f0",
		241: "f101", 495: "f1ff", 496: "f200", 2287: "f8ff",
		2288: "f90000", 67823: "f9ffff",
		67824: "fa0108f0", 1<<24 - 1: "faffffff",
		1 << 24: "fb01000000", 1<<32 - 1: "fbffffffff",
		1 << 32: "fc0100000000", 1<<40 - 1: "fcffffffffff",
		1 << 40: "fd010000000000", 1<<48 - 1: "fdffffffffffff",
		1 << 48: "fe01000000000000", 1<<56 - 1: "feffffffffffffff",
		1 << 56: "ff0100000000000000", math.MaxUint64: "ffffffffffffffffff",
	} {
		b := rowkey.AppendVarint(nil, v)
		if got := hex.EncodeToString(b); got != want {
			t.Errorf("%d is %s, want %s", v, got, want)
		}
		got, rest, err := rowkey.DecodeVarint(append(b, 0xee))
		if got != v || len(rest) != 1 || err != nil {
			t.Errorf("%s was read as %d, rest %x, error %v", want, got, rest, err)
		}
	}
}

func TestVarintOrder(t *testing.T) {
	borders := []uint64{0, 240, 241, 496, 2287, 2288, 67823, 67824, 1 << 24, 1 << 32, 1 << 40,
		1 << 48, 1 << 56, math.MaxUint64}
	testutil.Check(t, func(t *rapid.T) {
		draw := func(name string) uint64 {
			near := rapid.SampledFrom(borders).Draw(t, name)
			return near + rapid.Uint64Range(0, 4).Draw(t, name+" above") -
				rapid.Uint64Range(0, 4).Draw(t, name+" below")
		}
		a, b := draw("a"), draw("b")
		ea, eb := rowkey.AppendVarint(nil, a), rowkey.AppendVarint(nil, b)
		if got := bytes.Compare(ea, eb) < 0; got != (a < b) {
			t.Fatalf("%d and %d are %x and %x", a, b, ea, eb)
		}
		if a != b && bytes.HasPrefix(ea, eb) {
			t.Fatalf("%x of %d begins with %x of %d", ea, a, eb, b)
		}
		key, err := new(rowkey.Builder).AddString("n").AddVarint(a).Drain()
		ok(t, err)
		k, err := rowkey.Parse(key)
		ok(t, err)
		if got, err := k.Varint(1); got != a || err != nil {
			t.Fatalf("%d came back from a key as %d, error %v", a, got, err)
		}
	})
}

func TestVarintDamage(t *testing.T) {
	for _, s := range []string{"", "f1", "f100", "f9", "f900", "fa", "fa0108", "fa000000",
		"fa0108ef", "fb00ffffff", "fc00ffffffff", "ff00ffffffffffffff", "ffffffffffffffff"} {
		b, _ := hex.DecodeString(s)
		if v, _, err := rowkey.DecodeVarint(b); !errors.Is(err, corrupt.ErrCorrupt) {
			t.Errorf("%s was read as %d, error %v", s, v, err)
		}
	}
}

func FuzzDecodeVarint(f *testing.F) {
	for _, v := range []uint64{0, 240, 241, 2288, 67824, 1 << 24, 1 << 32, 1 << 63} {
		f.Add(rowkey.AppendVarint(nil, v))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer testutil.Watch(b)()
		v, rest, err := rowkey.DecodeVarint(b)
		if err != nil {
			var c *corrupt.Error
			if !errors.As(err, &c) || c.Offset < 0 || c.Offset > int64(len(b)) {
				t.Fatalf("error %v for %x", err, b)
			}
			return
		}
		if again := rowkey.AppendVarint(nil, v); !bytes.Equal(append(again, rest...), b) {
			t.Fatalf("%x came back as %x", b, again)
		}
	})
}
