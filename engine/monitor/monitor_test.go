package monitor_test

import (
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/monitor"
	"github.com/kstonedb/kstone/internal/testutil"
)

var ok = testutil.OK

func open(t *testing.T) *engine.DB {
	t.Helper()
	db, err := engine.Open("monitored", &engine.Options{InMemory: true})
	ok(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func ask(h http.Handler) (code int, body string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return w.Code, w.Body.String()
}

// TestPrometheus reads the text as a scraper does.
//
// Promise (manners): The metrics are text of Prometheus: each name has one kind and one help, and
// counters count.
func TestPrometheus(t *testing.T) {
	db := open(t)
	for i := range 5 {
		ok(t, db.Put(engine.K("p", strconv.Itoa(i)), []byte("v")))
	}
	code, text := ask(monitor.Prometheus(db))
	if code != http.StatusOK {
		t.Fatal(code, text)
	}
	histograms := 0
	line := regexp.MustCompile(`^(kstone_[a-z_]+)(\{(?:quantile|le)="[-+0-9.eInf]+"\})? ([-+0-9.e]+)$`)
	values, kind := map[string]float64{}, ""
	for row := range strings.Lines(text) {
		row = strings.TrimSuffix(row, "\n")
		if f := strings.Fields(row); f[0] == "#" {
			if f[1] == "TYPE" {
				if kind = f[3]; strings.HasSuffix(f[2], "_total") != (kind == "counter") {
					t.Errorf("%s is a %s", f[2], kind)
				}
			}
			continue
		}
		m := line.FindStringSubmatch(row)
		if m == nil {
			t.Fatalf("%q is not a sample", row)
		}
		if kind == "histogram" {
			histograms++
		}
		if _, twice := values[m[1]+m[2]]; twice {
			t.Errorf("%s is there twice", m[1]+m[2])
		}
		values[m[1]+m[2]], _ = strconv.ParseFloat(m[3], 64)
	}
	if strings.Count(text, "# TYPE kstone_write_latency_seconds ") != 1 ||
		values["kstone_commits_total"] != 5 || values["kstone_read_only"] != 0 {
		t.Errorf("%s", text)
	}
	var published map[string]float64
	v := monitor.Var(db)
	var _ expvar.Var = v
	if err := json.Unmarshal([]byte(v.String()), &published); err != nil ||
		published["kstone_commits_total"] != 5 || len(published)+histograms != len(values) {
		t.Errorf("expvar: %v, %v", published, err)
	}
}

// TestHistograms reads the buckets of a time.
//
// Promise (manners): Histograms of Prometheus have the samples in their buckets: ascending, and as
// many in the last one as there are.
func TestHistograms(t *testing.T) {
	db := open(t)
	for i := range 3200 {
		ok(t, db.Put(engine.K("p", strconv.Itoa(i)), []byte("v")))
	}
	m := db.Metrics()
	all := monitor.Histograms(&m)
	for _, h := range all {
		if !slices.IsSorted(h.Bounds) || !slices.IsSorted(h.Within) ||
			len(h.Bounds) != len(h.Within) || h.Within[len(h.Within)-1] > h.Count {
			t.Errorf("%+v", h)
		}
	}
	w := all[0]
	if w.Name != "kstone_write_seconds" || w.Count == 0 || w.Sum <= 0 ||
		w.Within[len(w.Within)-1] != w.Count && m.WriteLatency.Max < 10*time.Second {
		t.Errorf("%+v of %+v", w, m.WriteLatency)
	}
	_, text := ask(monitor.Prometheus(db))
	for _, want := range []string{
		"# TYPE kstone_write_seconds histogram\n",
		fmt.Sprintf("kstone_write_seconds_bucket{le=\"+Inf\"} %d\n", w.Count),
		fmt.Sprintf("kstone_write_seconds_count %d\n", w.Count),
		"kstone_write_seconds_bucket{le=\"1e-06\"} ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
}

// TestHealth asks a database that is well, and one that is closed.
//
// Promise (manners): One call says whether a database can be read and written, and why not.
func TestHealth(t *testing.T) {
	db := open(t)
	ok(t, monitor.Health(db))
	if code, body := ask(monitor.HealthHandler(db)); code != 200 || body != "ok\n" {
		t.Error(code, body)
	}
	ok(t, db.Close())
	if err := monitor.Health(db); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	code, body := ask(monitor.HealthHandler(db))
	if code != 503 || !strings.Contains(body, "closed") {
		t.Error(code, body)
	}
}

// TestDashboard compares the dashboard with the metrics.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("grafana.json")
	if err != nil || !json.Valid(text) {
		t.Fatalf("no JSON, %v", err)
	}
	_, exported := ask(monitor.Prometheus(open(t)))
	names := regexp.MustCompile(`kstone_[a-z_]+`).FindAllString(string(text), -1)
	if len(names) < 20 {
		t.Errorf("only %q", names)
	}
	for _, name := range names {
		if !strings.Contains(exported, fmt.Sprintf("# TYPE %s ", name)) {
			t.Errorf("there is no %s", name)
		}
	}
}
