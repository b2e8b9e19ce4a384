package composite_test

import (
	"fmt"

	"github.com/kstonedb/kstone/keycodec/composite"
	"github.com/kstonedb/kstone/keycodec/shard"
)

func Example() {
	s, err := composite.NewSchema(
		composite.Options{Shard: &shard.Spec{Function: shard.MD5, Count: 256}},
		composite.Field{Name: "user_id", Type: composite.String, Width: 12},
		composite.Field{Name: "order_date", Type: composite.Timestamp})
	if err != nil {
		fmt.Println(err)
		return
	}
	key, err := s.CreateCompositeKey(
		composite.Value{Field: "user_id", Value: "USR_12345"},
		composite.Value{Field: "order_date", Value: int64(1737100800000)})
	fmt.Printf("%x %v\n", key, err)

	values, err := s.Decode(key)
	fmt.Println(values, err)

	// All orders of the user, and of no other whose name begins the same way.
	spans, err := s.Prefix("USR_1234")
	fmt.Println(spans[0].Contains(key), err)

	// What could not be ordered is refused.
	_, err = s.Append(nil, "USR_12345", int64(-1))
	fmt.Println(err)
	// Output:
	// 00101f5553525f31323334350000001f000001947346b000 <nil>
	// [USR_12345 2025-01-17 08:00:00 +0000 UTC] <nil>
	// false <nil>
	// composite: field "order_date" (timestamp): -1 ms is before 1970 and would sort last
}
