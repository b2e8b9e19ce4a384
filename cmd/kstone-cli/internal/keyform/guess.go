package keyform

import (
	"fmt"

	"github.com/kstonedb/kstone/keycodec"
)

// Reading is one way to read a key that nothing is known about.
type Reading struct {
	Layout string `json:"layout"`
	Parts  []Part `json:"parts"`
}

// Guess returns the layouts that the bytes are valid in without knowing any fields: the two
// forms in which the database itself writes keys, and row keys and tagged tuples of more
// than one part.
func Guess(key []byte) []Reading {
	var list []Reading
	if k, _, err := keycodec.DecodeOrdered(key, nil); err == nil {
		n := len(key) - len(k.SK)
		parts := []Part{
			{0, n - 2, "PK", partition(k), text(k.PK)},
			{n - 2, n, "", "terminator", ""},
		}
		if k.SK != nil {
			parts = append(parts, Part{n, len(key), "SK", "sort key", text(k.SK)})
		}
		list = append(list, Reading{"ordered form of a database key", parts})
	}
	if k, rest, err := keycodec.DecodeLengthPrefixed(key); err == nil && len(rest) == 0 {
		n := 4 + len(k.PK)
		parts := []Part{
			{0, 4, "", "length", fmt.Sprint(len(k.PK))},
			{4, n, "PK", partition(k), text(k.PK)},
			{n, n + 4, "", "length", fmt.Sprint(len(k.SK))},
		}
		if k.SK != nil {
			parts = append(parts, Part{n + 4, len(key), "SK", "sort key", text(k.SK)})
		}
		list = append(list, Reading{"length-prefixed form of a database key", parts})
	}
	if parts, err := (rowKeyForm{}).Explain(key); err == nil && len(parts) > 1 {
		list = append(list, Reading{"row key", parts})
	}
	if parts, err := explainTagged(key); err == nil && len(parts) > 1 {
		list = append(list, Reading{"tagged tuple", parts})
	}
	return list
}

func partition(k keycodec.Key) string {
	return fmt.Sprintf("partition key, stripe %d", keycodec.Stripe(k.PK))
}
