package keycodec_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/kstonedb/kstone/keycodec"
)

func key(pk, sk string) keycodec.Key {
	k := keycodec.Key{PK: []byte(pk)}
	if sk != "" {
		k.SK = []byte(sk)
	}
	return k
}

func TestValidate(t *testing.T) {
	limit := bytes.Repeat([]byte{'x'}, keycodec.MaxKeyBytes)
	over := append(bytes.Clone(limit), 'x')
	for _, c := range []struct {
		name string
		key  keycodec.Key
		want error
	}{
		{"PK only", key("a", ""), nil},
		{"PK and SK", key("a", "b"), nil},
		{"zero bytes", key("\x00", "\x00"), nil},
		{"both at the limit", keycodec.Key{PK: limit, SK: limit}, nil},
		{"zero key", keycodec.Key{}, keycodec.ErrEmptyPK},
		{"no PK", key("", "b"), keycodec.ErrEmptyPK},
		{"empty SK", keycodec.Key{PK: []byte("a"), SK: []byte{}}, keycodec.ErrEmptySK},
		{"PK over the limit", keycodec.Key{PK: over}, keycodec.ErrKeyTooLarge},
		{"SK over the limit", keycodec.Key{PK: limit, SK: over}, keycodec.ErrKeyTooLarge},
	} {
		if err := c.key.Validate(); !errors.Is(err, c.want) {
			t.Errorf("%s: Validate() = %v, want %v", c.name, err, c.want)
		}
	}
}

// Promise (reads and writes): Stripe and byte forms of keys, their order. Also
// `TestOrderedSortsLikeKeys`, `TestLengthPrefixedVectors` in `keycodec`.
func TestStripeVectors(t *testing.T) {
	for pk, want := range map[string]uint8{
		"user#1": 154, "user#2": 32, "user#3": 182, "user#123": 125, "user#12345": 254,
		"user#alice": 165, "user#bob": 239, "sensor#temp": 171, "active": 2,
		"123456789": 0x26, // of cbf43926, the check value of the CRC
	} {
		if got := keycodec.Stripe([]byte(pk)); got != want {
			t.Errorf("Stripe(%q) = %d, want %d", pk, got, want)
		}
	}
}

func TestStripeSpread(t *testing.T) {
	var keys [256]int
	for i := range 10_000 {
		keys[keycodec.Stripe(fmt.Appendf(nil, "user#%d", i))]++
	}
	least, most := keys[0], keys[0]
	for _, n := range keys {
		least, most = min(least, n), max(most, n)
	}
	if least != 33 || most != 46 {
		t.Errorf("10000 keys put %d to %d keys in a stripe, want 33 to 46", least, most)
	}
}

func TestKeyString(t *testing.T) {
	for want, k := range map[string]keycodec.Key{
		`user#1`:            key("user#1", ""),
		`user#1 / post#2`:   key("user#1", "post#2"),
		`"a\x00" / "b / c"`: key("a\x00", "b / c"),
		`Zürich / "\xff"`:   key("Zürich", "\xff"),
	} {
		if got := k.String(); got != want {
			t.Errorf("String() = %s, want %s", got, want)
		}
	}
}
