package console

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine/console"
	"github.com/kstonedb/kstone/internal/testutil"
)

// TestFrame describes two samples, with a partition whose name would write to the terminal.
func TestFrame(t *testing.T) {
	first := &console.Sample{Name: "c\x1b[2J.db", Time: time.Unix(100, 0), Version: 1000,
		Metrics: map[string]float64{"kstone_gets_total": 50}}
	second := &console.Sample{Name: first.Name, Time: time.Unix(102, 0), Version: 1500,
		Metrics: map[string]float64{"kstone_gets_total": 250, "kstone_memtable_bytes": 1 << 20,
			"kstone_write_latency_seconds_0.5": 0.001},
		Hot:  []console.Hot{{PK: "\x1b]0;x\a", Owner: "items", Stripe: 7, Changed: 40}},
		Read: []console.Read{{PK: "a\x1b[2J", Owner: "table t", Stripe: 9, Share: 0.25}}}
	second.Changed[7] = 40
	f := newFrame()
	f.lines(nil, first)
	text := strings.Join(f.lines(first, second), "\n")
	for _, want := range []string{"version 1,500", "commits    250/s", "gets 100/s", "median 1ms",
		"write buffers 1.0 MiB", "7: 40", `40  stripe   7  \x1b]0;x`,
		`25.0 %  stripe   9  a\x1b[2J (table t)`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.ContainsRune(text, 0x1b) {
		t.Errorf("%q writes to the terminal", text)
	}
	// What was hot goes down and away.
	third := &console.Sample{Time: time.Unix(103, 0), Version: 1500, Reader: true}
	if text := strings.Join(f.lines(second, third), "\n"); !strings.Contains(text, "7: 28") ||
		strings.Contains(text, "stalls") {
		t.Errorf("%s", text)
	}
	for range 20 {
		f.lines(third, third)
	}
	text = strings.Join(f.lines(third, third), "\n")
	if !strings.Contains(text, "nothing changes") || len(f.partitions) > 0 {
		t.Errorf("%s", text)
	}
}

// TestFromConsole asks a server that answers as a console does, and others. The token is in no
// address, and goes nowhere else.
func TestFromConsole(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a request to %s with %v", r.URL, r.Header)
	}))
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.String(), "token") ||
			r.Header.Get("Authorization") != "Bearer t0" {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		switch r.URL.Path {
		case "/db/api/live":
			_ = json.NewEncoder(w).Encode(console.Sample{Version: 7, Name: r.URL.RawQuery})
		case "/moved/api/live":
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		case "/text/api/live":
			_, _ = w.Write([]byte("hello"))
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer server.Close()
	for path, want := range map[string]string{"/db/": "", "/moved/": "302",
		"/text/": "not a console", "/": "the token is not that"} {
		address, _ := consoleAddress(server.URL + path + "?token=t0")
		take, err := fromConsole(address)
		testutil.OK(t, err)
		s, err := take(t.Context(), 5)
		switch {
		case want == "" && (err != nil || s.Version != 7 || s.Name != "since=5"):
			t.Errorf("%s: %+v %v", path, s, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestAddresses says which addresses only this machine can reach.
func TestAddresses(t *testing.T) {
	for addr, allowed := range map[string]bool{"127.0.0.1:0": true, "[::1]:80": true,
		"localhost:1": true, "127.8.0.1:1": true, "0.0.0.0:1": false, ":1": false, "[::]:1": false,
		"10.0.0.1:1": false, "localhost.example.org:1": false, "1": false} {
		f := &flags{addr: addr, queryTime: time.Second}
		if err := f.check(); (err == nil) != allowed {
			t.Errorf("%s: %v", addr, err)
		}
	}
}
