package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"time"

	"github.com/kstonedb/kstone/engine/monitor"
	"github.com/kstonedb/kstone/internal/figure"
	"github.com/kstonedb/kstone/internal/overview"
)

//go:embed web
var web embed.FS

// pages are the templates of the pages: each is the layout around a body of its own.
var pages = map[string]*template.Template{}

// titles are those of the pages, in their order.
var titles = []struct{ Name, Title string }{
	{"", "Overview"}, {"query", "Query"}, {"browse", "Browse"}, {"metrics", "Metrics"},
	{"advice", "Advice"},
}

func init() {
	for _, p := range titles {
		name := p.Name
		if name == "" {
			name = "overview"
		}
		layout := template.New("layout.html").Funcs(template.FuncMap{"count": figure.Count,
			"percent": func(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }})
		pages[p.Name] = template.Must(layout.ParseFS(web, "web/layout.html", "web/"+name+".html"))
	}
}

// view is what the layout shows.
type view struct {
	Name, Version string
	Page, Title   string
	Pages         any
	Mode          string
	Problem       string
	Body          any
}

// mode says what the console may do.
func (c *Console) mode() string {
	if c.o.Write && !c.e.Follows() {
		return "may write"
	}
	return "reads only"
}

// page returns the handler of a page; body, which may be nil, returns what its template takes.
func (c *Console) page(name string, body func(r *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := &view{Name: c.o.Name, Version: c.o.Version, Page: name, Pages: titles, Mode: c.mode()}
		for _, p := range titles {
			if p.Name == name {
				v.Title = p.Title
			}
		}
		code := http.StatusOK
		var err error
		if body != nil {
			v.Body, err = body(r)
		} else {
			err = monitor.Health(c.e)
		}
		if err != nil {
			v.Problem, code = problemOf(r.Context(), err).Message, http.StatusServiceUnavailable
		}
		var out bytes.Buffer
		if err := pages[name].Execute(&out, v); err != nil {
			refuse(w, http.StatusInternalServerError, err.Error())
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(code)
		_, _ = w.Write(out.Bytes()) // the browser has gone away
	}
}

// static serves the scripts and style sheets.
func (c *Console) static(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	data, err := web.ReadFile("web/" + name)
	if name == "overview.css" {
		data, err = []byte(overview.Style), nil
	}
	kind := map[string]string{
		".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
		".svg": "image/svg+xml",
	}[path.Ext(name)]
	if err != nil || kind == "" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(data) // the browser has gone away
}

const (
	// maxSoonRecords is up to how many records the overview counts unless it is asked to, and
	// soon how long it may take.
	maxSoonRecords = 500_000
	soon           = 2 * time.Second
	maxAllRecords  = 1 << 40
)

// summary is the body of the overview.
type summary struct {
	Sections template.HTML
	Exact    bool
}

// overview shows what the report of the command line shows. It counts items if they are few or
// ?count=all asks for it; otherwise the figures are those of the files.
func (c *Console) overview(w http.ResponseWriter, r *http.Request) {
	c.page("", func(r *http.Request) (any, error) {
		r, end, err := c.begin(r)
		if err != nil {
			return nil, err
		}
		defer end()
		src := overview.Source{DB: c.e, Name: c.o.Name, Version: c.o.Version, Now: c.o.Clock(),
			FormatPK: c.o.FormatPK, MaxExact: maxSoonRecords}
		ctx, cancel := context.WithTimeout(r.Context(), soon)
		defer cancel()
		if r.URL.Query().Get("count") == "all" {
			ctx, src.MaxExact, src.Probe = r.Context(), maxAllRecords, true
		}
		data, err := overview.Collect(ctx, src)
		if errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil {
			src.MaxExact = 0
			data, err = overview.Collect(r.Context(), src)
		}
		if err != nil {
			return nil, fmt.Errorf("the database cannot be described: %w", err)
		}
		sections, err := data.Sections()
		return summary{sections, data.Exact}, err
	})(w, r)
}

// readKey takes x and hexadecimal digits, as overview.KeyText writes bytes, or text.
func readKey(text string) ([]byte, error) { return overview.ReadKeyText(text), nil }
