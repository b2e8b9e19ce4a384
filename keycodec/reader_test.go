package keycodec_test

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

// readField reads the next field of a reader as Decode would return it.
func readField(r *keycodec.Reader, f keycodec.Field) any {
	if r.Null() {
		return nil
	}
	switch f.Type {
	case keycodec.TypeString:
		return r.String()
	case keycodec.TypeBytes:
		return r.Bytes()
	case keycodec.TypeBool:
		return r.Bool()
	case keycodec.TypeFloat32, keycodec.TypeFloat64:
		return r.Float()
	case keycodec.TypeTime:
		return r.Time()
	case keycodec.TypeUUID:
		return r.UUID()
	case keycodec.TypeDecimal, keycodec.TypeFixed:
		return r.Decimal()
	case keycodec.TypeIP:
		return r.IP()
	case keycodec.TypeIPPrefix:
		return r.IPPrefix()
	case keycodec.TypeInt8, keycodec.TypeInt16, keycodec.TypeInt32, keycodec.TypeInt64:
		return r.Int()
	}
	return r.Uint()
}

func TestReaderReadsTuples(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		s := schemas().Draw(t, "schema")
		fields := s.Fields()
		values := tuple(t, s)
		key := must(s.Append(nil, values...))
		r := s.Reader(key)
		for i, f := range fields {
			if got := readField(&r, f); compareField(f, got, values[i]) != 0 {
				t.Fatalf("%v: field %d of %v reads as %v, error %v", s, i, values, got, r.Err())
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		// Any field alone, from any position.
		i := rapid.IntRange(0, len(fields)-1).Draw(t, "i")
		r.Skip(i - len(fields))
		if got := readField(&r, fields[i]); compareField(fields[i], got, values[i]) != 0 {
			t.Fatalf("%v: field %d of %v alone reads as %v, error %v", s, i, values, got, r.Err())
		}
		got, err := s.DecodeField(key, i)
		if err != nil || compareField(fields[i], got, values[i]) != 0 {
			t.Fatalf("DecodeField(%d) of %v is %v, error %v", i, values, got, err)
		}
		alone, err := s.EncodedField(key, i)
		want := must(fields[i].Append(nil, values[i]))
		if err != nil || !bytes.Equal(alone, want) {
			t.Fatalf("EncodedField(%d) of %x is %x, error %v; want %x", i, key, alone, err, want)
		}
		v, rest, err := fields[i].Decode(append(bytes.Clone(want), 7))
		same := compareField(fields[i], v, values[i]) == 0
		if err != nil || !bytes.Equal(rest, []byte{7}) || !same {
			t.Fatalf("Field.Decode(%x) = %v, %x, %v", want, v, rest, err)
		}
		if rest, err := fields[i].Skip(append(bytes.Clone(want), 7)); err != nil || len(rest) != 1 {
			t.Fatalf("Field.Skip(%x) = %x, %v", want, rest, err)
		}
	})
}

func TestReaderReportsDamage(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		s := schemas().Draw(t, "schema")
		b := must(s.Append(nil, tuple(t, s)...))
		i := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		likely := rapid.SampledFrom([]byte{0, 1, 2, 0xff})
		b[i] = rapid.OneOf(likely, rapid.Byte()).Draw(t, "byte")
		b = b[:rapid.IntRange(0, len(b)).Draw(t, "length")]
		r := s.Reader(b)
		for _, f := range s.Fields() {
			readField(&r, f)
		}
		_, err := s.Decode(b)
		if got := r.Close(); (got == nil) != (err == nil) {
			t.Fatalf("%v: %x: the reader says %v, Decode %v", s, b, got, err)
		}
		if err := r.Err(); err != nil && !errors.Is(err, corrupt.ErrCorrupt) {
			t.Fatalf("%v is not corruption", err)
		}
	})
}

func TestReaderRefuses(t *testing.T) {
	s := must(keycodec.NewSchema(
		keycodec.Field{Name: "a", Type: keycodec.TypeString},
		keycodec.Field{Name: "b", Type: keycodec.TypeInt64, Nullable: true},
		keycodec.Field{Name: "c", Type: keycodec.TypeFixed, Scale: 2, Desc: true},
	))
	key := must(s.Append(nil, "text", nil, keycodec.NewDecimal(150, 2)))
	for name, read := range map[string]func(*keycodec.Reader){
		"another type":  func(r *keycodec.Reader) { r.Int() },
		"NULL":          func(r *keycodec.Reader) { r.Skip(1); r.Int() },
		"too few":       func(r *keycodec.Reader) { _ = r.String() },
		"too many":      func(r *keycodec.Reader) { r.Skip(3); r.Bool() },
		"skip too far":  func(r *keycodec.Reader) { r.Skip(4) },
		"skip too near": func(r *keycodec.Reader) { r.Skip(-1) },
		"NULL too far":  func(r *keycodec.Reader) { r.Skip(3); r.Null(); r.Bool() },
	} {
		r := s.Reader(key)
		read(&r)
		if err := r.Close(); err == nil {
			t.Errorf("%s: no error", name)
		}
		if name == "too few" {
			continue
		}
		sticky := r.Err()
		if sticky != r.Close() {
			t.Errorf("%s: Err reports %v, Close %v", name, sticky, r.Close())
		}
		zero := r.String() == "" && r.Bytes() == nil && r.Int() == 0 && r.Uint() == 0 &&
			!r.Bool() && r.Float() == 0 && r.Time().IsZero() && r.UUID() == keycodec.UUID{} &&
			!r.Null() && r.Decimal() == keycodec.Decimal{} && r.Coefficient() == 0 &&
			r.IP() == netip.Addr{} && r.IPPrefix() == netip.Prefix{}
		if r.Skip(1); !zero || r.Err() != sticky {
			t.Errorf("%s: the reader goes on after %v", name, sticky)
		}
	}
	r := s.Reader(key)
	if r.Skip(2); r.Coefficient() != 150 || r.Close() != nil {
		t.Errorf("the coefficient is not 150, error %v", r.Err())
	}
	r = s.Reader(key)
	if r.Skip(3); r.Close() != nil {
		t.Errorf("skipping all fields: %v", r.Err())
	}
	r = s.Reader(key)
	if r.Int(); r.Err().Error() != `keycodec: field "a" of type string read as a int64` {
		t.Errorf("another type: %v", r.Err())
	}
	for _, i := range []int{-1, 3} {
		if _, err := s.DecodeField(key, i); err == nil {
			t.Errorf("DecodeField(%d) of 3 fields: no error", i)
		}
	}
}

func TestReaderAllocatesNothing(t *testing.T) {
	s := must(keycodec.NewSchema(
		keycodec.Field{Name: "a", Type: keycodec.TypeString},
		keycodec.Field{Name: "b", Type: keycodec.TypeTime, Unit: keycodec.Millisecond, Desc: true},
		keycodec.Field{Name: "c", Type: keycodec.TypeUUID, Nullable: true},
		keycodec.Field{Name: "d", Type: keycodec.TypeIP, Desc: true},
	))
	key := must(s.Append(nil, "text", time.UnixMilli(5), keycodec.UUID{1}, netip.IPv6Loopback()))
	if n := testing.AllocsPerRun(100, func() {
		r := s.Reader(key)
		if len(r.Bytes()) != 4 || r.Time().UnixMilli() != 5 || r.UUID()[0] != 1 {
			t.Fatal(r.Err())
		}
		if !r.IP().IsLoopback() || r.Close() != nil {
			t.Fatal(r.Err())
		}
	}); n != 0 {
		t.Errorf("reading a key allocates %v times, want 0", n)
	}
}
