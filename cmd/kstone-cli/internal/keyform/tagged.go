package keyform

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/kstonedb/kstone/keycodec"
)

// explainTagged returns the elements of a tuple that says its own types.
func explainTagged(key []byte) ([]Part, error) {
	elements, err := keycodec.DecodeTagged(key)
	if err != nil {
		return nil, err
	}
	var parts []Part
	for at, rest := 0, key; len(rest) > 0; at = len(key) - len(rest) {
		if rest, err = keycodec.SkipTagged(rest); err != nil {
			return nil, err
		}
		end := len(key) - len(rest)
		text, err := keycodec.FormatTagged(key[at:end])
		if err != nil {
			return nil, err
		}
		name := fmt.Sprint("element ", len(parts))
		what := elementType(elements[len(parts)])
		parts = append(parts, Part{at, end, name, what, strings.TrimSuffix(text, " desc")})
	}
	return parts, nil
}

// elementType names the type of a decoded element as schemas do.
func elementType(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case keycodec.Descending:
		return elementType(v.Value) + " desc"
	case []byte:
		return keycodec.TypeBytes.String()
	case time.Time:
		return keycodec.TypeTime.String()
	case keycodec.UUID:
		return keycodec.TypeUUID.String()
	case keycodec.Decimal:
		return keycodec.TypeDecimal.String()
	case netip.Addr:
		return keycodec.TypeIP.String()
	case netip.Prefix:
		return keycodec.TypeIPPrefix.String()
	}
	return fmt.Sprintf("%T", v) // string, bool, int64, uint64, float64
}
