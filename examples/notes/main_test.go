package main

import (
	"context"
	"database/sql"
	"io"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// TestNotes: notes are added, at the same time too, listed in pages and removed, and the counter
// of the user is theirs.
func TestNotes(t *testing.T) {
	db, err := sql.Open("kstone", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	handler, err := newHandler(context.Background(), db)
	if err != nil {
		t.Fatal(err)
	}
	call := func(method, query string, form url.Values) (int, string) {
		r := httptest.NewRequest(method, "/notes?"+query, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		body, _ := io.ReadAll(w.Body)
		return w.Code, string(body)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			code, body := call("POST", "", url.Values{"user": {"ada"}, "text": {"hello"}})
			if code != 200 {
				t.Errorf("%d %s", code, body)
			}
		})
	}
	wg.Wait()
	_, page := call("GET", "user=ada&limit=2&before=8", nil)
	if !strings.HasPrefix(page, `[{"id":7,"text":"hello"`) || strings.Count(page, "id") != 2 {
		t.Error(page)
	}
	if code, body := call("DELETE", "user=ada&id=7", nil); code != 200 || body != "{\"left\":7}\n" {
		t.Errorf("%d %s", code, body)
	}
	if code, body := call("DELETE", "user=ada&id=7", nil); code != 404 {
		t.Errorf("%d %s", code, body)
	}
	if _, page = call("GET", "user=ada", nil); strings.Count(page, "id") != 7 {
		t.Error(page)
	}
}
