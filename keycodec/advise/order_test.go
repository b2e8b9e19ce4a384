package advise_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/keycodec/advise"
)

// TestOrderIsDelivered: of two keys that read as much, the one that delivers the order
// answers, in whatever order keys and queries are given.
func TestOrderIsDelivered(t *testing.T) {
	s := orders(2000)
	const ordered = "user_id = ? ORDER BY order_date"
	queries := []string{"order_date BETWEEN ? AND ?", "user_id = ? AND category = ?", ordered}
	permute(queries, 0, func(given []string) {
		r, err := advise.Advise(s, parse(given...), advise.Options{})
		ok(t, err)
		for i, v := range r.Verdicts {
			if v.Sorts || v.Kind == advise.Inefficient {
				t.Errorf("%q: query %d by %s: %s", given, i+1, keysOf(r), v.Why)
			}
			if given[i] == ordered && v.Why != "reads [user_id] in the order of order_date" {
				t.Errorf("%q: %s", given, v.Why)
			}
		}
	})
	keys := [][]string{{"user_id", "category"}, {"user_id", "order_date"}, {"user_id"}}
	q := parse("user_id = ? ORDER BY order_date", "user_id = ? AND status = ? ORDER BY order_date")
	for range 3 {
		keys = append(keys[1:], keys[0])
		for _, v := range advise.Explain(keys, q, s, s.Rows()) {
			if v.Sorts || keys[v.Key][1] != "order_date" {
				t.Errorf("keys %v: %q is answered by key %d: %s", keys, v.Query.Text, v.Key, v.Why)
			}
		}
	}
}

// TestAdviceIsIndependentOfTheOrder: for random queries, all orders of them lead to the same
// keys and the same answers, and nothing is sorted that a key can deliver.
func TestAdviceIsIndependentOfTheOrder(t *testing.T) {
	s := orders(200)
	testutil.Check(t, func(t *rapid.T) {
		queries := drawQueries(t)
		queries = queries[:min(4, len(queries))]
		names := []string{"", "user_id", "order_date", "category", "status"}
		for i := range queries {
			queries[i].Order = rapid.SampledFrom(names).Draw(t, "order")
		}
		want := ""
		permuteQueries(queries, 0, func(given []advise.Query) {
			r, err := advise.Advise(s, given, advise.Options{ID: []string{"order_id"}})
			ok(t, err)
			got := adviceOf(r)
			if want == "" {
				want = got
			}
			if got != want {
				t.Fatalf("%+v lead to\n%s, before\n%s", given, got, want)
			}
			for _, v := range r.Verdicts {
				q := v.Query
				needed := q.Range != "" && q.Order != "" && q.Order != q.Range &&
					!slices.Contains(q.Equal, q.Order)
				if v.Sorts && !needed {
					t.Fatalf("%+v is sorted with %s: %s", q, keysOf(r), v.Why)
				}
			}
		})
	})
}

// adviceOf is what a report says, in an order of its own.
func adviceOf(r advise.Report) string {
	var list []string
	for _, k := range r.Keys {
		list = append(list, strings.Join(k.Fields, " "))
	}
	for _, v := range r.Verdicts {
		q := v.Query
		list = append(list, fmt.Sprint(q.Equal, q.Range, q.Order, ": ", v.Kind, v.Rows, v.Sorts))
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}

func permuteQueries(list []advise.Query, k int, visit func([]advise.Query)) {
	if k == len(list) {
		visit(slices.Clone(list))
	}
	for i := k; i < len(list); i++ {
		list[k], list[i] = list[i], list[k]
		permuteQueries(list, k+1, visit)
		list[k], list[i] = list[i], list[k]
	}
}
