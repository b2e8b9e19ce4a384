package main

import (
	"encoding/binary"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/kstonedb/kstone/engine"
)

// TestLinks: a link is made once, leads somewhere, counts visits at the same time, and is in a
// backup.
func TestLinks(t *testing.T) {
	db, err := engine.Open("links", &engine.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	backups := t.TempDir()
	h := handler(db, backups)
	call := func(method, path, body string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
		return w.Code, w.Header().Get("Location") + w.Body.String()
	}
	if code, body := call("PUT", "/go", "https://go.dev"); code != 200 {
		t.Fatal(code, body)
	}
	if code, _ := call("PUT", "/go", "https://example.com"); code != 409 {
		t.Error(code)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if code, to := call("GET", "/go", ""); code != 302 || !strings.Contains(to, "go.dev") {
				t.Error(code, to)
			}
		})
	}
	wg.Wait()
	visits, err := db.Get(engine.K("go", "visits"))
	if err != nil || binary.BigEndian.Uint64(visits) != 8 {
		t.Error(visits, err)
	}
	if code, _ := call("GET", "/absent", ""); code != 404 {
		t.Error(code)
	}
	if code, body := call("GET", "/-/healthz", ""); code != 200 || body != "ok\n" {
		t.Error(code, body)
	}
	_, metrics := call("GET", "/-/metrics", "")
	if !strings.Contains(metrics, "kstone_commits_total 9\n") {
		t.Error(metrics)
	}
	if _, vars := call("GET", "/-/vars", ""); !strings.Contains(vars, "memstats") {
		t.Error(vars)
	}
	foreign, w := httptest.NewRequest("POST", "/-/backup", nil), httptest.NewRecorder()
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	if h.ServeHTTP(w, foreign); w.Code != 403 {
		t.Error("a page of another site makes a backup:", w.Code)
	}
	if code, body := call("POST", "/-/backup", ""); code != 200 {
		t.Fatal(code, body)
	}
	made, err := filepath.Glob(filepath.Join(backups, "*"))
	if len(made) != 1 || err != nil {
		t.Fatal(made, err)
	}
	backup, err := engine.Open(made[0], &engine.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer backup.Close()
	if to, err := backup.Get(engine.K("go", "to")); err != nil || string(to) != "https://go.dev" {
		t.Errorf("%q, %v", to, err)
	}
}

// TestGuide: the Go blocks of the guide are parts of this program and its test.
//
// Promise (manners): What docs/embedding.md shows compiles and passes its test.
func TestGuide(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "embedding.md"))
	if err != nil {
		t.Fatal(err)
	}
	var code string
	for _, name := range []string{"main.go", "main_test.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code += string(text)
	}
	flat := func(s string) string { return regexp.MustCompile(`\n\t*`).ReplaceAllString(s, "\n") }
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(guide), -1)
	if len(blocks) < 5 {
		t.Errorf("%d Go blocks", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(flat(code), flat(b[1])) {
			t.Errorf("this is not part of the program:\n%s", b[1])
		}
	}
}
