package keycodec_test

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

func TestPrefixEndVectors(t *testing.T) {
	for prefix, want := range map[string]string{
		"a": "b", "ab": "ac", "a\xff": "b", "\x01\xff": "\x02", "a\xff\xff": "b", "\x00": "\x01",
	} {
		got, ok := keycodec.PrefixEnd([]byte("dst"), []byte(prefix))
		if !ok || string(got) != "dst"+want {
			t.Errorf("PrefixEnd(%q) = %q, %v; want %q", prefix, got, ok, "dst"+want)
		}
	}
	for _, prefix := range []string{"", "\xff", "\xff\xff\xff"} {
		got, ok := keycodec.PrefixEnd([]byte("dst"), []byte(prefix))
		if ok || string(got) != "dst" {
			t.Errorf("PrefixEnd(%q) = %q, %v; want no end and dst", prefix, got, ok)
		}
	}
}

func TestPrefixEndBoundsThePrefix(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		prefix, s := awkward(0).Draw(t, "prefix"), awkward(0).Draw(t, "s")
		before := bytes.Clone(prefix)
		end, ok := keycodec.PrefixEnd(nil, prefix)
		if !bytes.Equal(prefix, before) {
			t.Fatalf("the prefix was changed to %x", prefix)
		}
		for _, s := range [][]byte{s, append(bytes.Clone(prefix), s...)} {
			in := bytes.Compare(prefix, s) <= 0 && (!ok || bytes.Compare(s, end) < 0)
			if in != bytes.HasPrefix(s, prefix) {
				t.Fatalf("%x in [%x, %x) is %v", s, prefix, end, in)
			}
		}
	})
}

func TestPrefixEndMayShareMemory(t *testing.T) {
	buf := append(make([]byte, 0, 64), "a\xff"...)
	end, ok := keycodec.PrefixEnd(buf, buf)
	if !ok || string(end) != "a\xffb" || string(buf) != "a\xff" {
		t.Errorf("PrefixEnd(buf, buf) = %q, %v and buf = %q", end, ok, buf)
	}
}

func TestSuccessorIsNext(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		k, s := awkward(0).Draw(t, "key"), awkward(0).Draw(t, "s")
		next := keycodec.Successor(nil, k)
		if (bytes.Compare(s, k) <= 0) != (bytes.Compare(s, next) < 0) {
			t.Fatalf("%x lies between %x and its successor %x", s, k, next)
		}
	})
}

func TestInvertFrom(t *testing.T) {
	got := keycodec.InvertFrom([]byte{1, 0x00, 0xff, 0x0f}, 1)
	if want := []byte{1, 0xff, 0x00, 0xf0}; !bytes.Equal(got, want) {
		t.Errorf("InvertFrom = %x, want %x", got, want)
	}
	for n := range 40 {
		in := make([]byte, n)
		for i := range in {
			in[i] = byte(i * 37)
		}
		out := keycodec.InvertFrom(bytes.Clone(in), n/3)
		for i := range in {
			if flipped := i >= n/3; (out[i] == in[i]^0xff) != flipped || len(out) != n {
				t.Fatalf("InvertFrom(%x, %d) = %x", in, n/3, out)
			}
		}
	}
}

// TestAppendBeginsWithBytes: what it appends for bytes, ascending or descending, nullable or not,
// begins the encodings of those that begin so, and of no others.
func TestAppendBeginsWithBytes(t *testing.T) {
	for _, f := range []keycodec.Field{
		{}, {Desc: true}, {Nullable: true}, {Desc: true, Nullable: true},
	} {
		for _, text := range []bool{false, true} {
			of := func(s string) any {
				if text {
					return s
				}
				return []byte(s)
			}
			f.Name, f.Type = "b", keycodec.TypeBytes
			if text {
				f.Type = keycodec.TypeString
			}
			s := must(keycodec.NewSchema(f))
			for _, begin := range []string{"", "a", "a\x00", "ab"} {
				prefix := must(s.AppendBeginsWith(nil, of(begin)))
				for _, v := range []string{"", "a", "a\x00", "a\x00b", "ab", "abc", "b"} {
					got := bytes.HasPrefix(must(s.Append(nil, of(v))), prefix)
					if want := strings.HasPrefix(v, begin); got != want {
						t.Errorf("%v: %q begins with %q: %v", f, v, begin, got)
					}
				}
			}
		}
	}
}

// TestPrefixIsTheEncodingWithoutItsEnd: of every short string, zero bytes anywhere.
func TestPrefixIsTheEncodingWithoutItsEnd(t *testing.T) {
	list := []string{""}
	for i := 0; i < len(list) && len(list[i]) < 4; i++ {
		for _, c := range []string{"\x00", "\x01", "a", "\xff"} {
			list = append(list, list[i]+c)
		}
	}
	for _, s := range list {
		whole := keycodec.AppendString([]byte("dst"), s)
		want := whole[:len(whole)-2]
		for what, got := range map[string][]byte{
			"PrefixString": keycodec.PrefixString([]byte("dst"), s),
			"PrefixBytes":  keycodec.PrefixBytes([]byte("dst"), []byte(s)),
		} {
			if !bytes.Equal(got, want) {
				t.Errorf("%s(%q) = %q, want %q", what, s, got, want)
			}
		}
	}
}
