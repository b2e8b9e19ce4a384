package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/console"
)

// rowPage and itemPage are answers with pages.
type rowPage struct {
	Rows  [][]*string
	Next  []byte
	Error *problem
}

type itemPage struct {
	Items  []struct{ PK, SK, Value string }
	Looked int
	Next   string
	Error  *problem
}

// filter is a condition as the browser sends it.
type filter struct {
	Column string `json:"column"`
	Op     string `json:"op"`
	Value  string `json:"value"`
}

// allRows turns the pages of a table up to the last and returns the names of towns.
func (s *server) allRows(limit int, filters ...filter) (names []string, pages int) {
	s.t.Helper()
	var after []byte
	for {
		var p rowPage
		if code := s.post("/api/rows", map[string]any{"table": "towns", "filters": filters,
			"after": after, "limit": limit}, &p); code != http.StatusOK {
			s.t.Fatalf("%d %+v", code, p.Error)
		}
		for _, row := range p.Rows {
			names = append(names, *row[1])
		}
		if pages++; p.Next == nil {
			return names, pages
		}
		after = p.Next
	}
}

// TestRowPages turns pages, with filters and without, while rows before them come and go.
//
// Promise (manners): Pages of tables and items have every row once, with filters and whatever is
// written before them. Also `TestItemPages`.
func TestRowPages(t *testing.T) {
	s := open(t, console.Options{})
	seen := map[string]bool{}
	names, pages := s.allRows(7)
	for _, name := range names {
		seen[name] = true
	}
	if len(seen) != 120 || len(names) != 120 || pages != 18 {
		t.Errorf("%d rows, %d different, on %d pages", len(names), len(seen), pages)
	}
	for _, c := range []struct {
		filter filter
		want   int
	}{
		{filter{"people", ">=", "100"}, 20},
		{filter{"country", "=", "C1"}, 40},
		{filter{"country", "<>", "C1"}, 80},
		{filter{"name", "LIKE", "town 00%"}, 10},
		{filter{"name", "ILIKE", "TOWN 1%"}, 20},
		{filter{"people", "IS NULL", ""}, 0},
		{filter{"people", "IS NOT NULL", ""}, 120},
		{filter{"name", "=", "' OR 1=1 --"}, 0},
	} {
		if names, _ := s.allRows(9, c.filter); len(names) != c.want {
			t.Errorf("%+v: %d rows, want %d", c.filter, len(names), c.want)
		}
	}
	if names, _ := s.allRows(50, filter{"people", "<", "60"}, filter{"country", "=", "C0"}); len(
		names) != 20 {
		t.Errorf("two filters: %q", names)
	}
	var first, second rowPage
	ask := map[string]any{"table": "towns", "limit": 10}
	s.post("/api/rows", ask, &first)
	s.exec("DELETE FROM towns WHERE country = 'C0' AND people < 30")
	s.exec("INSERT INTO towns VALUES ('C0', 'a town', 1)")
	ask["after"] = first.Next
	s.post("/api/rows", ask, &second)
	if got := *second.Rows[0][1]; got != "town 030" {
		t.Errorf("the second page begins with %q", got)
	}
	for _, bad := range []map[string]any{
		{"table": "nowhere"},
		{"table": "towns", "filters": []filter{{"nothing", "=", "1"}}},
		{"table": "towns", "filters": []filter{{"people", "=", "many"}}},
		{"table": "towns", "filters": []filter{{"people", "; DROP", "1"}}},
		{"table": "towns", "after": []byte("no cursor")},
		{"table": "towns", "what": 1},
	} {
		var p rowPage
		if code := s.post("/api/rows", bad, &p); code != http.StatusBadRequest || p.Error == nil {
			t.Errorf("%v: %d %+v", bad, code, p)
		}
	}
}

// TestItemPages turns pages of items; rows of tables are not among them.
func TestItemPages(t *testing.T) {
	s := open(t, console.Options{})
	for i := range 25 {
		key := engine.K("fruit", fmt.Sprintf("apple %02d", i))
		ok(t, s.e.Put(key, fmt.Appendf(nil, `{"n":%d}`, i)))
	}
	ok(t, s.e.Put(engine.Key{PK: []byte{0, 255}}, []byte{0, 200}))
	pages := func(ask map[string]any) (all []string) {
		t.Helper()
		ask["limit"] = 10
		for {
			var p itemPage
			if code := s.post("/api/items", ask, &p); code != http.StatusOK {
				t.Fatalf("%v: %d %+v", ask, code, p.Error)
			}
			for _, item := range p.Items {
				all = append(all, item.PK+" "+item.SK+" "+item.Value)
			}
			if ask["after"] = p.Next; p.Next == "" {
				return all
			}
		}
	}
	for _, c := range []struct {
		ask  map[string]any
		want int
	}{
		{map[string]any{}, 56},
		{map[string]any{"pk": "fruit"}, 25},
		{map[string]any{"pk": "frui"}, 0},
		{map[string]any{"pk": "frui", "prefix": true}, 25},
		{map[string]any{"pk": "fruit", "sk": "apple 0"}, 10},
		{map[string]any{"text": `"n":1`}, 11},
		{map[string]any{"pk": hostile, "text": "alert(2)"}, 30},
		{map[string]any{"pk": "x00ff"}, 1},
	} {
		if got := pages(c.ask); len(got) != c.want {
			t.Errorf("%v: %d items, want %d", c.ask, len(got), c.want)
		}
	}
	if got := pages(map[string]any{"pk": "x00ff"}); got[0] != "x00ff  x00c8" {
		t.Errorf("bytes: %q", got)
	}
	var p itemPage
	if code := s.post("/api/items", map[string]any{"after": "none"}, &p); code != 400 {
		t.Errorf("a cursor of nothing: %d", code)
	}
}

// TestLive takes samples.
//
// Promise (manners): A sample has the metrics under the names of Prometheus, and what has changed
// since another one.
func TestLive(t *testing.T) {
	s := open(t, console.Options{})
	live := func(since uint64) (sample console.Sample) {
		s.decode(fmt.Sprintf("/api/live?since=%d", since), &sample)
		return sample
	}
	first := live(0)
	if first.Metrics["kstone_commits_total"] == 0 || first.Version == 0 || len(first.Hot) > 0 {
		t.Errorf("%+v", first)
	}
	for i := range 5 {
		ok(t, s.e.Put(engine.K("busy", fmt.Sprint(i)), []byte("v")))
	}
	for range 3000 {
		_, err := s.e.Get(engine.K("busy", "1"))
		ok(t, err)
	}
	s.exec("INSERT INTO towns VALUES ('new', 'town', 1)")
	second := live(first.Version)
	if len(second.Hot) != 2 || second.Hot[0] != (console.Hot{PK: "busy", Owner: "items",
		Stripe: second.Hot[0].Stripe, Changed: 5}) || second.Hot[1].Owner != "table towns" ||
		second.Hot[1].PK != "new" || second.Changed[second.Hot[0].Stripe] < 5 {
		t.Errorf("%+v", second.Hot)
	}
	if r := second.Read; len(r) == 0 || r[0].PK != "busy" || r[0].Owner != "items" ||
		r[0].Share < 0.8 || second.Reads[r[0].Stripe] < 2000 {
		t.Errorf("%+v", r)
	}
	if text := s.get(fmt.Sprintf("/metrics?since=%d", first.Version)); !strings.Contains(text,
		`<th scope="row">busy</th>`) || !strings.Contains(text, "kstone_stall_seconds_total") {
		t.Error("the page has no changes or no metrics")
	}
}

// TestAdvicePage shows what the queries of the console would gain by an index.
func TestAdvicePage(t *testing.T) {
	s := open(t, console.Options{Write: true})
	s.query("ANALYZE towns", false)
	for i := range 20 {
		s.query(fmt.Sprintf("SELECT name FROM towns WHERE people = %d", i), false)
	}
	text := s.get("/advice")
	for _, want := range []string{"CREATE INDEX", "ON towns (people)",
		`<td class="n">20</td><td class="n">2,400</td><td class="n">20</td>`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
