//go:build fdb

package keys

import (
	"fmt"

	"github.com/apple/foundationdb/bindings/go/src/fdb/tuple"

	"github.com/kstonedb/kstone/keycodec"
)

func init() {
	others = append(others, codec{fdbName, "", appendFDB, decodeFDB})
}

// appendFDB allocates for each tuple: the layer cannot append to memory of the caller.
func appendFDB(_ []byte, v *order) ([]byte, error) {
	return tuple.Tuple{v.User, v.At, tuple.UUID(v.ID)}.Pack(), nil
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
