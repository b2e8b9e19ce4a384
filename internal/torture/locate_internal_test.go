package torture

import (
	"maps"
	"strings"
	"testing"
)

// What a broken database would hold is found: an acknowledged step that is missing, half
// a batch, an item that is back, a value of another step, a counter that went back.
func TestLocateFindsWhatIsWrong(t *testing.T) {
	const seed, from, upTo = 7, 100, 400
	base := newProgress(1)
	for base.num < from {
		s := stepOf(seed, 1, base.num+1)
		base.apply(&s)
	}
	now := base.clone()
	var last step
	for now.num < upTo || len(last.changes) < 2 || !last.counts() {
		last = stepOf(seed, 1, now.num+1)
		now.apply(&last)
	}
	if p, err := locate(seed, &base, now.num, now.count, now.items); err != nil || p.num < now.num {
		t.Fatalf("the right state: step %d, %v", p.num, err)
	}
	some := ""
	for some = range now.items {
		break
	}
	changed := func(f func(m map[string]string)) map[string]string {
		m := maps.Clone(now.items)
		f(m)
		return m
	}
	for _, c := range []struct {
		name           string
		floor, counter int
		items          map[string]string
		want           string
	}{
		{"lost step", upTo + 1000, now.count, now.items, "was acknowledged"},
		{"lost item", 0, now.count, changed(func(m map[string]string) { delete(m, some) }),
			"is missing"},
		{"item back", 0, now.count, changed(func(m map[string]string) { m["w1/0\x00zz"] = "" }),
			"too many"},
		{"other value", 0, now.count, changed(func(m map[string]string) { m[some] += "x" }), "not"},
		{"counter alone", 0, base.count, now.items, "no state"},
		{"counter back", 0, base.count - 1, base.items, "went back"},
		{"counter of no step", 0, now.count + 1000*counterEvery + 1, now.items, ""},
	} {
		_, err := locate(seed, &base, c.floor, c.counter, c.items)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
