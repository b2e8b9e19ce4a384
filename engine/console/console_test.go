package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/console"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
	"github.com/kstonedb/kstone/engine/table"
	"github.com/kstonedb/kstone/internal/testutil"
)

const (
	token   = "0123456789abcdef-test"
	hostile = `<script>alert(1)</script><img src=x onerror=alert(2)>"'`
)

// server is a console, and the database that it shows.
type server struct {
	t      *testing.T
	e      *engine.DB
	tables *table.DB
	*console.Console
}

// open returns a console of a database whose keys, names and values try to be more than text.
func open(t *testing.T, o console.Options) *server {
	t.Helper()
	e, err := engine.Open("shown.db", &engine.Options{InMemory: true})
	ok(t, err)
	t.Cleanup(func() { e.Close() })
	tables, err := local.Open(t.Context(), e, nil)
	ok(t, err)
	t.Cleanup(func() { tables.Close() })
	o.Token, o.Name = token, "shown"+hostile
	c, err := console.New(tables, &o)
	ok(t, err)
	s := &server{t, e, tables, c}
	s.exec(`CREATE TABLE towns (country TEXT, name TEXT, people INT NULL,
		PRIMARY KEY (country, name))`)
	for i := range 120 {
		s.exec(fmt.Sprintf("INSERT INTO towns VALUES ('C%d', 'town %03d', %d)", i%3, i, i))
	}
	name := sqlName(hostile)
	s.exec("CREATE TABLE " + name + " (" + name + " TEXT, PRIMARY KEY (" + name + "))")
	s.exec("INSERT INTO "+name+" VALUES (?)", hostile)
	for i := range 30 {
		ok(t, e.Put(engine.K(hostile, fmt.Sprintf("%02d", i)), []byte(hostile)))
	}
	return s
}

func sqlName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

var ok = testutil.OK

func (s *server) exec(text string, args ...any) {
	s.t.Helper()
	_, err := sql.Open(s.tables).Exec(s.t.Context(), text, args...)
	ok(s.t, err)
}

// rows counts the rows of a table.
func (s *server) rows(name string) (n int) {
	s.t.Helper()
	rows, err := sql.Open(s.tables).Query(s.t.Context(), "SELECT * FROM "+name)
	ok(s.t, err)
	for _, err := range rows.All() {
		ok(s.t, err)
		n++
	}
	return n
}

// send sends a request that change has changed, with the token unless it is removed.
func (s *server) send(method, path, body string, change func(*http.Request),
) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:8017"
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// get returns a page.
func (s *server) get(path string) string {
	s.t.Helper()
	w := s.send("GET", path, "", nil)
	if w.Code != http.StatusOK {
		s.t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// post sends v and decodes the answer into out.
func (s *server) post(path string, v, out any) int {
	s.t.Helper()
	body, err := json.Marshal(v)
	ok(s.t, err)
	w := s.send("POST", path, string(body), nil)
	if err := json.Unmarshal(w.Body.Bytes(), out); err != nil {
		s.t.Fatalf("%s: %d %q: %v", path, w.Code, w.Body, err)
	}
	return w.Code
}

// result is an answer to statements.
type result struct {
	Error      *problem
	Statements []struct {
		Verb, Done string
		Columns    []struct{ Name string }
		Rows       [][]*string
		More       bool
		Plan       *struct {
			Operator string
			Actual   *struct{ Rows int }
		}
		Error *problem
	}
}

type problem struct {
	Message, Excerpt string
	Line, Column     int
}

func (s *server) query(text string, explain bool) (r result) {
	s.t.Helper()
	s.post("/api/query", map[string]any{"sql": text, "explain": explain}, &r)
	return r
}

// TestToken opens the console with and without its token.
//
// Promise (manners): A request without the token is refused; the first one with it gets a cookie,
// and an address without it.
func TestToken(t *testing.T) {
	s := open(t, console.Options{})
	without := func(r *http.Request) { r.Header.Del("Authorization") }
	for _, c := range []struct {
		path   string
		change func(r *http.Request)
		code   int
	}{
		{"/", nil, 200},
		{"/", without, 401},
		{"/static/query.js", without, 401},
		{"/api/query", without, 401},
		{"/nowhere", without, 401},
		{"/nowhere", nil, 404},
		{"/?token=0123456789abcdef-tesT", without, 401},
		{"/?token=", without, 401},
		{"/", func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }, 401},
		{"/", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token+"x") }, 401},
	} {
		if w := s.send("GET", c.path, "", c.change); w.Code != c.code {
			t.Errorf("%s: %d, want %d", c.path, w.Code, c.code)
		} else if w.Code == 401 && strings.Contains(w.Body.String()+fmt.Sprint(w.Header()), token) {
			t.Errorf("%s: the answer has the token", c.path)
		}
	}
	w := s.send("GET", "/query?x=1&token="+token, "", without)
	cookies := w.Result().Cookies()
	if w.Code != 303 || w.Header().Get("Location") != "./query?x=1" || len(cookies) != 1 ||
		!cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode ||
		w.Header().Get("Referrer-Policy") != "no-referrer" {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	if w := s.send("GET", "/query", "", func(r *http.Request) {
		without(r)
		r.AddCookie(cookies[0])
	}); w.Code != 200 {
		t.Errorf("with the cookie: %d", w.Code)
	}
	if _, err := console.New(s.tables, &console.Options{Token: "short"}); err == nil {
		t.Error("a short token is taken")
	}
	const chosen = `Schlüssel; "mit" Leerzeichen\`
	var err error
	s.Console, err = console.New(s.tables, &console.Options{Token: chosen})
	ok(t, err)
	w = s.send("GET", "/?token="+url.QueryEscape(chosen), "", without)
	if w := s.send("GET", "/query", "", func(r *http.Request) {
		without(r)
		r.Header.Set("Cookie", w.Header().Get("Set-Cookie"))
	}); w.Code != 200 {
		t.Errorf("with the cookie of a chosen token: %d", w.Code)
	}
}

// TestOtherSites asks as pages of other sites can.
//
// Promise (manners): A page of another site reaches nothing: under a name of its own, from its
// origin, or with a form.
func TestOtherSites(t *testing.T) {
	s := open(t, console.Options{Hosts: []string{"DB.example"}})
	host := func(name string) func(*http.Request) {
		return func(r *http.Request) { r.Host = name }
	}
	head := func(pairs ...string) func(*http.Request) {
		return func(r *http.Request) {
			for i := 0; i < len(pairs); i += 2 {
				r.Header.Set(pairs[i], pairs[i+1])
			}
		}
	}
	for i, c := range []struct {
		change func(*http.Request)
		code   int
	}{
		{host("localhost:8017"), 200},
		{host("[::1]:8017"), 200},
		{host("127.0.0.2"), 200},
		{host("db.example:80"), 200},
		{host("DB.Example"), 200},
		{host("evil.example"), 403},
		{host("evil.example:8017"), 403},
		{host("127.0.0.1.evil.example"), 403},
		{host("192.168.1.4:8017"), 403},
		{host(""), 403},
		{head("Origin", "http://127.0.0.1:8017", "Sec-Fetch-Site", "same-origin"), 200},
		{head("Origin", "http://127.0.0.1:9999"), 403},
		{head("Origin", "http://evil.example"), 403},
		{head("Origin", "null"), 403},
		{head("Sec-Fetch-Site", "cross-site"), 403},
		{head("Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors"), 403},
		{head("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate",
			"Sec-Fetch-Dest", "iframe"), 403},
		{head("Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate",
			"Sec-Fetch-Dest", "document"), 200},
	} {
		if w := s.send("GET", "/", "", c.change); w.Code != c.code {
			t.Errorf("%d: %d, want %d", i, w.Code, c.code)
		}
	}
	form := `{"sql":"SELECT 1"}`
	if w := s.send("POST", "/api/query", form, head("Content-Type", "text/plain")); w.Code != 415 {
		t.Errorf("a form: %d", w.Code)
	}
	if w := s.send("POST", "/api/query", form, head("Sec-Fetch-Site", "cross-site",
		"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")); w.Code != 403 {
		t.Errorf("a form of another site: %d", w.Code)
	}
}

// TestReadOnly runs statements that change something.
//
// Promise (manners): Statements change nothing unless the program allows it, those that EXPLAIN
// ANALYZE runs included; a transaction ends with its request.
func TestReadOnly(t *testing.T) {
	s := open(t, console.Options{})
	for _, text := range []string{
		"DELETE FROM towns", "SELECT 1; DELETE FROM towns", "UPDATE towns SET people = 0",
		"INSERT INTO towns VALUES ('x', 'y', 1) RETURNING name", "DROP TABLE towns",
		"CREATE TABLE x (a INT, PRIMARY KEY (a))", "BEGIN", "ANALYZE", "/**/ delete from towns",
		"CREATE INDEX i ON towns (people)", "ALTER TABLE towns ADD COLUMN x INT NULL",
	} {
		if r := s.query(text, false); r.Error == nil || len(r.Statements) > 0 {
			t.Errorf("%s: %+v", text, r)
		}
	}
	for _, verb := range []string{"EXPLAIN ANALYZE", "EXPLAIN"} {
		text := verb + " DELETE FROM towns"
		if r := s.query(text, false); r.Error != nil || r.Statements[0].Plan == nil {
			t.Errorf("%s: %+v", text, r)
		}
	}
	if n := s.rows("towns"); n != 120 {
		t.Fatalf("%d rows", n)
	}
	w := open(t, console.Options{Write: true})
	r := w.query("DELETE FROM towns WHERE people < 20", false)
	if r.Statements[0].Done != "20 rows" {
		t.Errorf("%+v", r)
	}
	r = w.query("BEGIN; DELETE FROM towns", false)
	last := r.Statements[len(r.Statements)-1]
	if last.Verb != "ROLLBACK" || w.rows("towns") != 100 {
		t.Errorf("%+v", r)
	}
}

// TestErrorsHaveAPlace runs statements that are wrong, after others and in a later line.
func TestErrorsHaveAPlace(t *testing.T) {
	s := open(t, console.Options{})
	for text, want := range map[string][2]int{
		"SELECT nam FROM towns":                     {1, 8},
		"SELECT 1; SELECT nam FROM towns":           {1, 18},
		"SELECT 1;\n\n  SELECT 'é', nam FROM towns": {3, 15},
	} {
		for _, explain := range []bool{false, true} {
			r := s.query(text, explain)
			e := r.Statements[len(r.Statements)-1].Error
			line := text[strings.LastIndexByte(text, '\n')+1:] + "\n"
			if e == nil || [2]int{e.Line, e.Column} != want || !strings.HasPrefix(e.Excerpt, line) {
				t.Errorf("%q, explain %t: %+v", text, explain, e)
			}
		}
	}
	if r := s.query("SELEC 1", false); r.Error == nil || r.Error.Line != 1 {
		t.Errorf("%+v", r)
	}
	if r := s.query("SELECT * FROM towns WHERE people > 5", true); r.Error != nil ||
		r.Statements[0].Plan.Actual.Rows != 114 {
		t.Errorf("%+v", r)
	}
	if r := s.query("SHOW TABLES", true); r.Statements[0].Plan == nil {
		t.Errorf("%+v", r)
	}
}

// TestHostileText shows keys, names, values and errors that are markup.
//
// Promise (manners): Keys, names, values and errors are shown as text, whatever they are; pages
// have no script or style but files of the console, and ask for nothing from elsewhere. Also
// `TestBrowser` in `engine/console/browser`.
func TestHostileText(t *testing.T) {
	s := open(t, console.Options{})
	markup := regexp.MustCompile(`(?i)<script>|<img|<style|\sstyle=|\son[a-z]+="|javascript:|https?://`)
	scripts := regexp.MustCompile(`<script type="module" src="(static/[a-z]+\.js)"></script>`)
	for _, path := range s.pages() {
		text := s.get(path)
		if bad := markup.FindString(text); bad != "" {
			t.Errorf("%s has %q", path, bad)
		}
		if !strings.Contains(text, "&lt;script&gt;alert(1)&lt;/script&gt;") {
			t.Errorf("%s does not show the name", path)
		}
		for _, m := range scripts.FindAllStringSubmatch(text, -1) {
			s.checkScript("/" + m[1])
		}
	}
	r := s.query(`SELECT * FROM `+sqlName(hostile)+`; SELECT "<b>x" FROM towns`, false)
	if got := *r.Statements[0].Rows[0][0]; got != hostile {
		t.Errorf("%q", got)
	}
	if e := r.Statements[1].Error; !strings.Contains(e.Message, "<b>x") {
		t.Errorf("%+v", e)
	}
	w := s.send("POST", "/api/query", `{"sql":"SELECT '<b>'"}`, nil)
	if strings.Contains(w.Body.String(), "<b>") ||
		w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
	policy := w.Header().Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self';",
		"frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
		if !strings.Contains(policy, want) || strings.Contains(policy, "unsafe") {
			t.Errorf("the policy is %q", policy)
		}
	}
}

// pages returns the addresses that the pages lead to.
func (s *server) pages() []string {
	links := regexp.MustCompile(`<a href="\./([a-z]*)"`).FindAllStringSubmatch(s.get("/"), -1)
	var all []string
	for _, m := range links {
		all = append(all, "/"+m[1])
	}
	if len(all) < 2 {
		s.t.Fatalf("links to %q", all)
	}
	return all
}

// checkScript looks at a script, and those that it imports.
func (s *server) checkScript(path string) {
	s.t.Helper()
	text := s.get(path)
	sinks := `innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function`
	if bad := regexp.MustCompile(sinks).FindString(text); bad != "" {
		s.t.Errorf("%s has %s", path, bad)
	}
	imports := regexp.MustCompile(`from '\./([a-z]+\.js)'`)
	for _, m := range imports.FindAllStringSubmatch(text, -1) {
		s.checkScript("/static/" + m[1])
	}
}

// TestBounds runs what takes too long or is too much.
//
// Promise (manners): Statements end after a time, and what is shown of a result is bounded.
func TestBounds(t *testing.T) {
	s := open(t, console.Options{MaxRows: 50, QueryTime: time.Nanosecond})
	r := s.query("SELECT count(*) FROM towns a, towns b, towns c, towns d", false)
	if e := r.Statements[0].Error; e == nil || !strings.Contains(e.Message, "stopped after 1ns") {
		t.Errorf("%+v", r)
	}
	s = open(t, console.Options{MaxRows: 50})
	for n, more := range map[int]bool{50: false, 51: true} {
		r := s.query(fmt.Sprintf("SELECT * FROM towns LIMIT %d", n), false)
		if one := r.Statements[0]; len(one.Rows) != 50 || one.More != more {
			t.Errorf("%d rows: %d, more %t", n, len(one.Rows), one.More)
		}
	}
	s.exec("INSERT INTO towns VALUES ('long', ?, 1)", strings.Repeat("é", 10_000))
	r = s.query("SELECT name FROM towns WHERE country = 'long'", false)
	if text := *r.Statements[0].Rows[0][0]; len(text) > 5000 ||
		!strings.Contains(text, "20000 bytes") {
		t.Errorf("%d bytes", len(text))
	}
	r = s.query(strings.Repeat("SELECT name FROM towns WHERE country = 'long';", 3000), false)
	if last := r.Statements[2999]; last.Rows != nil || !last.More {
		t.Errorf("after 12 MB: %+v", last)
	}
	big := `{"sql":"` + strings.Repeat("x", 1<<20) + `"}`
	if w := s.send("POST", "/api/query", big, nil); w.Code != 400 {
		t.Errorf("a long body: %d", w.Code)
	}
}

// TestComplete asks for words.
func TestComplete(t *testing.T) {
	s := open(t, console.Options{})
	var got struct {
		Typed string
		Words []struct{ Text, Kind string }
	}
	s.post("/api/complete", map[string]string{"before": "SELECT peo", "after": " FROM towns"}, &got)
	if got.Typed != "peo" || len(got.Words) == 0 || got.Words[0].Text != "people" {
		t.Errorf("%+v", got)
	}
}

// TestClosedBelow closes the database while the console is asked.
//
// Promise (manners): A console answers while others write, and after the database is closed it
// says so.
func TestClosedBelow(t *testing.T) {
	s := open(t, console.Options{})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 40 {
				key := engine.K("p", fmt.Sprint(i))
				if err := s.e.Put(key, []byte("v"), engine.Process); err != nil {
					return // closed
				}
			}
		})
		group.Go(func() {
			for range 10 {
				for _, path := range []string{"/", "/query"} {
					if w := s.send("GET", path, "", nil); w.Code != 200 && w.Code != 503 {
						t.Errorf("%s: %d %s", path, w.Code, w.Body)
					}
				}
				s.send("POST", "/api/query", `{"sql":"SELECT count(*) FROM towns"}`, nil)
			}
		})
	}
	ok(t, s.tables.Close())
	ok(t, s.e.Close())
	group.Wait()
	for _, path := range []string{"/", "/query"} {
		w := s.send("GET", path, "", nil)
		if w.Code != 503 || !strings.Contains(w.Body.String(), "closed") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	r := s.query("SELECT count(*) FROM towns", false)
	if r.Error == nil && r.Statements[0].Error == nil {
		t.Errorf("%+v", r)
	}
}

// TestGone ends a request whose browser goes away before its first statement.
func TestGone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := open(t, console.Options{Clock: func() time.Time { cancel(); return time.Time{} }})
	w := s.send("POST", "/api/query", `{"sql":"SELECT 1; SELECT 2"}`,
		func(r *http.Request) { *r = *r.WithContext(ctx) })
	if n := strings.Count(w.Body.String(), "canceled"); n != 1 {
		t.Errorf("%s", w.Body)
	}
}

// decode decodes the answer to a GET.
func (s *server) decode(path string, out any) {
	s.t.Helper()
	ok(s.t, json.Unmarshal([]byte(s.get(path)), out))
}
