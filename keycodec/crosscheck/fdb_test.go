//go:build fdb

package crosscheck

import (
	"github.com/apple/foundationdb/bindings/go/src/fdb/tuple"

	"github.com/kstonedb/kstone/keycodec"
)

func init() {
	peers = append(peers, peer{"FoundationDB tuple", encodeFDB})
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
