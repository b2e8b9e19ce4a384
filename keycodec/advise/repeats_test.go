package advise_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/keycodec/advise"
)

// records returns n records of a device, a reading and a time; of every ten one repeats the
// device and the time of the one before, and of every hundred one repeats all.
func records(n int) (list [][]advise.Value) {
	for i := range n {
		at, v := i, i
		if i%10 == 9 {
			at--
		}
		if i%100 == 99 {
			v--
		}
		list = append(list, []advise.Value{{Field: "dev", Text: fmt.Append(nil, at/10%7)},
			{Field: "at", Text: fmt.Append(nil, at)}, {Field: "v", Text: fmt.Append(nil, v)}})
	}
	return list
}

func repeatsOf(t *testing.T, list [][]advise.Value, id []string, query string) advise.Key {
	t.Helper()
	s := &advise.Sample{}
	for _, r := range list {
		s.Add(r)
	}
	r, err := advise.Advise(s, parse(query), advise.Options{ID: id})
	ok(t, err)
	p := advise.NewRepeats(&r)
	for _, record := range list {
		p.Add(record)
	}
	p.Settle(&r)
	return r.Keys[0]
}

// TestRepeats: a key that does not tell records apart is found, with the exact number of
// records that repeat another's, and the field that helps is named.
func TestRepeats(t *testing.T) {
	list := records(10_000)
	for _, c := range []struct {
		id       string
		repeated uint64
		add, why string
	}{
		{"v", 100, "", "no single field of the sample helps"},
		{"at", 1000, "v", "1,000 of 10,000 records of the sample repeat the key of another and" +
			" would replace it; add v, which leaves 100, and more"},
		{"dev", 9993, "v", "add v, which leaves 100, and more"},
	} {
		k := repeatsOf(t, list, []string{c.id}, "dev = ?")
		if text := strings.Join(k.Why, "; "); !k.Checked || k.Repeated != c.repeated ||
			strings.Join(k.Add, " ") != c.add || !strings.Contains(text, c.why) {
			t.Errorf("id %s: %d repeated, add %v: %s", c.id, k.Repeated, k.Add, text)
		}
	}
	whole := append([][]advise.Value{}, list[:99]...)
	if k := repeatsOf(t, whole, []string{"at"}, "dev = ?"); k.Repeated != 9 ||
		!strings.Contains(strings.Join(k.Why, "; "), "add v, which leaves none") {
		t.Errorf("%+v", k)
	}
	if k := repeatsOf(t, whole, []string{"v"}, "v = ?"); k.Repeated != 0 || k.Add != nil ||
		!strings.Contains(strings.Join(k.Why, "; "), "no two of the 99 records") {
		t.Errorf("%+v", k)
	}
	missing := [][]advise.Value{{{Field: "dev", Text: []byte("1")}, {Field: "v"}},
		{{Field: "dev", Text: []byte("1")}}, {{Field: "v", Text: []byte("1")}}}
	if k := repeatsOf(t, missing, nil, "dev = ?"); k.Repeated != 1 {
		t.Errorf("of records that lack fields: %+v", k)
	}
}
