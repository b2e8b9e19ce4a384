package rowkey_test

import (
	"fmt"
	"slices"

	"github.com/kstonedb/kstone/keycodec/rowkey"
)

// Numbers in keys sort as numbers.
func Example() {
	var keys []string
	for _, n := range []int64{10, 2, 20, 1} {
		key, err := new(rowkey.Builder).AddString("Building").AddInt64(n).Drain()
		if err != nil {
			fmt.Println(err)
		}
		keys = append(keys, string(key))
	}
	slices.Sort(keys)
	for _, key := range keys {
		k, err := rowkey.Parse([]byte(key))
		if err != nil {
			fmt.Println(err)
		}
		name, _ := k.String(0)
		n, _ := k.Int64(1)
		fmt.Printf("%s#%d\n", name, n)
	}
	// Output:
	// Building#1
	// Building#2
	// Building#10
	// Building#20
}
