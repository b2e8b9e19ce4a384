package keycodec_test

import (
	"math"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec"
)

func TestIPRange(t *testing.T) {
	for prefix, want := range map[string][2]string{
		"10.0.0.0/8":     {"10.0.0.0", "10.255.255.255"},
		"10.1.2.3/32":    {"10.1.2.3", "10.1.2.3"},
		"10.1.2.130/25":  {"10.1.2.128", "10.1.2.255"},
		"0.0.0.0/0":      {"0.0.0.0", "255.255.255.255"},
		"2001:db8::/33":  {"2001:db8::", "2001:db8:7fff:ffff:ffff:ffff:ffff:ffff"},
		"::ffff:0:0/96":  {"::ffff:0.0.0.0", "::ffff:255.255.255.255"},
		"fe80::1234/128": {"fe80::1234", "fe80::1234"},
	} {
		first, last := keycodec.IPRange(netip.MustParsePrefix(prefix))
		if first.String() != want[0] || last.String() != want[1] {
			t.Errorf("%s goes from %s to %s, want %v", prefix, first, last, want)
		}
	}
}

// TestIPRangeBoundsThePrefix finds the addresses of a network with a range of keys.
func TestIPRangeBoundsThePrefix(t *testing.T) {
	testutil.Check(t, func(t *rapid.T) {
		s := must(keycodec.NewSchema(keycodec.Field{Name: "ip", Type: keycodec.TypeIP,
			Desc: rapid.Bool().Draw(t, "desc")}))
		a, b := drawIP(t), drawIP(t)
		p := netip.PrefixFrom(a, rapid.IntRange(0, a.BitLen()).Draw(t, "bits"))
		first, last := keycodec.IPRange(p)
		span := must(s.RangeSpan(nil, keycodec.Including(first), keycodec.Including(last)))
		if got := span.Contains(must(s.Append(nil, b))); got != p.Contains(b) {
			t.Fatalf("%s in %s is %v", b, p, got)
		}
	})
}

func TestFullRange(t *testing.T) {
	first := time.Unix(math.MinInt64, 0)
	last := time.Unix(math.MaxInt64-62135596800, 999_999_999)
	for _, at := range []time.Time{
		first, {}, time.Unix(-1, 999_999_999), time.Unix(0, 0), time.Unix(0, 1), last,
		time.Date(2026, 1, 1, 0, 0, 0, 7, time.FixedZone("", 3600)),
	} {
		b, err := keycodec.AppendTime(nil, at, keycodec.FullRange)
		if err != nil || len(b) != 12 {
			t.Fatalf("%v is %x, error %v", at, b, err)
		}
		got, rest, err := keycodec.DecodeTime(append(b, 7), keycodec.FullRange)
		if err != nil || !got.Equal(at) || len(rest) != 1 || got.Location() != time.UTC {
			t.Errorf("%v reads back as %v, rest %x, error %v", at, got, rest, err)
		}
	}
	for _, u := range []keycodec.Unit{keycodec.Second, keycodec.FullRange} {
		early := first.Add(-1)
		got, err := keycodec.AppendTime([]byte("dst"), early, u)
		if err == nil || string(got) != "dst" {
			t.Errorf("%v in %s is %x, error %v; want an error", early, u, got, err)
		}
	}
	f := keycodec.Field{Name: "at", Type: keycodec.TypeTime, Unit: keycodec.FullRange}
	for _, bad := range []string{
		"-9223372036854775808.1s", "9223372036854775807s", "1.0000000001s", "xs", "1e5s", "1.5e3s",
		"5",
	} {
		if v, err := f.ParseValue(bad); err == nil {
			t.Errorf("%s reads as %v, want an error", bad, v)
		}
	}
}
