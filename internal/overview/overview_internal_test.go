package overview

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/schema"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/internal/testutil"
)

var ok = testutil.OK

const hostile = `<script>alert(1)</script>"'`

// hostileDB makes a database whose keys and names try to be more than text.
func hostileDB(t *testing.T) *engine.DB {
	t.Helper()
	d, err := engine.Open(filepath.Join(t.TempDir(), "a&b.db"), nil)
	ok(t, err)
	t.Cleanup(func() { d.Close() })
	for i := range 100 {
		key := engine.Key{PK: []byte(hostile), SK: fmt.Appendf(nil, "%d", i)}
		ok(t, d.Put(key, []byte("v"), engine.Process))
	}
	tables, err := local.Open(context.Background(), d, nil)
	ok(t, err)
	defer tables.Close()
	for _, text := range []string{
		`CREATE TABLE "<b>towns" (country TEXT, name TEXT, PRIMARY KEY (country, name))`,
		`CREATE INDEX by_name ON "<b>towns" (name)`,
		`INSERT INTO "<b>towns" VALUES ('I&T', 'Pisa'), ('I&T', 'Siena'), ('US', 'Rome')`,
	} {
		if _, err := sql.Open(tables).Exec(context.Background(), text); err != nil {
			t.Fatal(text, err)
		}
	}
	ok(t, d.Flush(context.Background()))
	return d
}

// Promise (manners): A report is one file that asks for nothing from elsewhere, shows tables,
// indexes and partitions by their names, and takes keys and names for text.
func TestReport(t *testing.T) {
	d := hostileDB(t)
	r, err := Collect(context.Background(), Source{DB: d, Name: filepath.Base(d.Dir()),
		MaxExact: 1000, Probe: true})
	ok(t, err)
	text := render(t, r)
	for _, want := range []string{
		"&lt;script&gt;alert(1)&lt;/script&gt;", "table &lt;b&gt;towns", ">I&amp;T</th>",
		">US</th>", ">3 rows<",
		"index &lt;b&gt;towns.by_name", "100 items", "keys that are not there", "kstone-cli verify",
		"prefers-color-scheme: dark", `role="img"`, `<html lang="en">`, "<caption>",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	for _, bad := range []string{"<script", "<b>", "http:", "https:", "src=", "url(", "@import"} {
		if strings.Contains(text, bad) {
			t.Errorf("there is %q", bad)
		}
	}
	for _, link := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		if link[1][0] != '#' || !strings.Contains(text, `id="`+link[1][1:]+`"`) {
			t.Errorf("a link to %q", link[1])
		}
	}
	if n := r.Filters; n.Checks == 0 || n.Negatives == 0 {
		t.Errorf("filters: %+v", n)
	}
}

func render(t *testing.T, r *Data) string {
	t.Helper()
	var out bytes.Buffer
	ok(t, r.WriteReport(&out))
	return out.String()
}

// The page of a database of 100 GB, 40 files a stripe, has at most 1 MB.
func TestReportSize(t *testing.T) {
	r := &Data{Path: "large.db"}
	for i := range r.Stripes {
		r.Stripes[i].Items, r.Stripes[i].Bytes = int64(1e6+i), 400<<20
		for n := range 40 {
			r.Stripes[i].Files = append(r.Stripes[i].Files, file{
				fmt.Sprintf("%03d-%016d.sst", i, n), 10 << 20, time.Now()})
		}
	}
	for range top {
		r.Largest = append(r.Largest, &Partition{Name: strings.Repeat("x", 500), Bytes: 1})
	}
	r.Advice = adviceFor(r)
	if n := len(render(t, r)); n > 1<<20 {
		t.Errorf("%d bytes", n)
	}
}

// Advice names what needs attention, and the command for it.
func TestAdvice(t *testing.T) {
	r := &Data{Path: "x.db", LiveBytes: 10 << 20}
	r.Metrics.Total.RawBytes = 30 << 20
	r.Metrics.LogBytes = 9 << 20
	r.Metrics.Stripes[7].Runs = 9
	r.Largest = []*Partition{{Name: "big", Owner: "items", Bytes: 9 << 20}}
	r.Settings = []engine.Setting{{Name: "filter-bits", Value: "none"}}
	r.Owners = []*share{{Statistics: "none", Share: &Share{Name: "table t", Count: 1,
		owner: Owner{Table: &schema.Table{Name: "t"}}}}}
	var all strings.Builder
	for _, a := range adviceFor(r) {
		fmt.Fprintln(&all, a.Text, a.Command)
	}
	for _, want := range []string{"30.0 MiB for 10.0 MiB", "9 runs", "log has 9.0 MiB",
		"partition big of items has 90.0 %", "ANALYZE", "filter-bits=8", "verify x.db"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no %q in\n%s", want, &all)
		}
	}
}
