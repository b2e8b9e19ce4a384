//go:build fdb

package crosscheck

import (
	"fmt"

	"github.com/apple/foundationdb/bindings/go/src/fdb/tuple"

	"github.com/kstonedb/kstone/keycodec"
)

func init() {
	peers = append(peers, peer{"FoundationDB tuple", encodeFDB, appendFDB, decodeFDB})
}

// encodeFDB knows all types, ascending only.
func encodeFDB(values []any, desc []bool) []byte {
	var t tuple.Tuple
	for i, v := range values {
		if desc[i] {
			return nil
		}
		if u, ok := v.(keycodec.UUID); ok {
			v = tuple.UUID(u)
		}
		t = append(t, v)
	}
	return t.Pack()
}

func appendFDB(_ []byte, v *order) []byte {
	return tuple.Tuple{v.User, v.At, tuple.UUID(v.ID)}.Pack()
}

func decodeFDB(key []byte, v *order) error {
	t, err := tuple.Unpack(key)
	if err != nil {
		return err
	}
	if len(t) != 3 {
		return fmt.Errorf("%d elements", len(t))
	}
	v.User, v.At, v.ID = t[0].(string), t[1].(int64), keycodec.UUID(t[2].(tuple.UUID))
	return nil
}
