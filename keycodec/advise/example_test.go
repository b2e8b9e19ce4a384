package advise_test

import (
	"fmt"

	"github.com/kstonedb/kstone/keycodec/advise"
)

func Example() {
	var sample advise.Sample
	for i := range 1000 {
		sample.Add([]advise.Value{
			{Field: "order_id", Text: fmt.Appendf(nil, "o%d", i)},
			{Field: "user_id", Text: fmt.Appendf(nil, "u%d", i%100)},
			{Field: "category", Text: fmt.Appendf(nil, "c%d", i%7)},
			{Field: "order_date", Text: fmt.Append(nil, i)},
		})
	}
	var queries []advise.Query
	for _, text := range []string{
		"user_id = ? AND order_date BETWEEN ? AND ?",
		"category = ? AND order_date BETWEEN ? AND ?",
		"user_id = ?",
	} {
		q, err := advise.ParseQuery(text)
		if err != nil {
			fmt.Println(err)
		}
		queries = append(queries, q)
	}
	report, err := advise.Advise(&sample, queries, advise.Options{})
	if err != nil {
		fmt.Println(err)
	}
	for i, key := range report.Keys {
		fmt.Println("key", i+1, key.Fields)
	}
	for i, v := range report.Verdicts {
		fmt.Printf("query %d: %s of key %d, %s\n", i+1, v.Kind, v.Key+1, v.Why)
	}
	// Output:
	// key 1 [user_id order_date order_id]
	// key 2 [category order_date order_id]
	// query 1: range scan of key 1, reads a range of order_date within [user_id]
	// query 2: range scan of key 2, reads a range of order_date within [category]
	// query 3: prefix scan of key 1, reads [user_id]
}
