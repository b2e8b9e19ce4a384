package browser_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/console"
	"github.com/kstonedb/kstone/engine/local"
	"github.com/kstonedb/kstone/engine/sql"
)

var (
	shots = flag.String("shots", "", "write pictures of the pages into this directory")
	shown = flag.String("db", "", "show this database in them")
)

const hostile = `<script>alert(1)</script><img src=x onerror=alert(2)>"'`

// tab is a page of a browser that shows a console.
type tab struct {
	*testing.T
	ctx  context.Context
	base string

	address string

	mu  sync.Mutex
	bad []string // what a browser says of a page that is not as it should be
}

// open starts a console and a browser.
func open(t *testing.T) *tab {
	t.Helper()
	server := httptest.NewServer(handler(t))
	t.Cleanup(server.Close)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.Flag("hide-scrollbars", true))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ok(t, chromedp.Run(ctx)) // starts the browser, whatever time that takes
	b := &tab{T: t, ctx: ctx, base: server.URL}
	chromedp.ListenTarget(ctx, b.listen)
	b.do(log.Enable(), network.Enable(), chromedp.EmulateViewport(1400, 900),
		chromedp.Navigate(server.URL+"/?token="+token))
	return b
}

const token = "0123456789abcdef-browser"

// handler is a console of a database whose keys, names and values try to be markup, and which is
// written to.
func handler(t *testing.T) *console.Console {
	t.Helper()
	dir, o := filepath.Join(t.TempDir(), "towns.db"), &engine.Options{Durability: engine.Process}
	if *shown != "" {
		dir, o = *shown, &engine.Options{ReadOnly: true}
	}
	e, err := engine.Open(dir, o)
	ok(t, err)
	t.Cleanup(func() { e.Close() })
	tables, err := local.Open(t.Context(), e, nil)
	ok(t, err)
	t.Cleanup(func() { tables.Close() })
	c, err := console.New(tables, &console.Options{Token: token, Write: *shown == "",
		Version: "kstone"})
	ok(t, err)
	if *shown != "" {
		return c
	}
	s := sql.Open(tables)
	exec := func(text string, args ...any) {
		t.Helper()
		_, err := s.Exec(t.Context(), text, args...)
		ok(t, err)
	}
	exec(`CREATE TABLE towns (country TEXT, name TEXT, people INT NULL,
		PRIMARY KEY (country, name))`)
	for i := range 300 {
		exec("INSERT INTO towns VALUES (?, ?, ?)", fmt.Sprintf("C%d", i%7),
			fmt.Sprintf("town %03d", i), i)
	}
	name := `"` + strings.ReplaceAll(hostile, `"`, `""`) + `"`
	exec("CREATE TABLE " + name + " (" + name + " TEXT, PRIMARY KEY (" + name + "))")
	exec("INSERT INTO "+name+" VALUES (?)", hostile)
	for i := range 60 {
		ok(t, e.Put(engine.K(hostile, fmt.Sprintf("%02d", i)), []byte(hostile)))
	}
	ok(t, e.Flush(t.Context()))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_ = e.Put(engine.K("busy", fmt.Sprint(i%100)), []byte("v")) // until it is closed
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-done })
	return c
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// listen notes what no page of the console may do.
func (b *tab) listen(event any) {
	note := func(format string, args ...any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.bad = append(b.bad, fmt.Sprintf(format, args...))
	}
	switch e := event.(type) {
	case *page.EventJavascriptDialogOpening:
		note("a script opens a dialog: %s", e.Message)
		go func() { _ = chromedp.Run(b.ctx, page.HandleJavaScriptDialog(true)) }()
	case *runtime.EventExceptionThrown:
		note("a script fails: %s", e.ExceptionDetails.Error())
	case *log.EventEntryAdded:
		note("the browser says: %s %s", e.Entry.Text, e.Entry.URL)
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, b.base) {
			note("a request to %s", e.Request.URL)
		}
		if strings.Contains(fmt.Sprint(e.Request.Headers["Referer"]), token) {
			note("a referer has the token")
		}
	}
}

// patience is how long a page may take for what a person does.
const patience = 20 * time.Second

// do runs actions.
func (b *tab) do(actions ...chromedp.Action) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.Fatalf("%v %q", err, b.bad)
	}
}

// to opens a page by its link.
func (b *tab) to(title string) {
	b.Helper()
	b.do(chromedp.Click(fmt.Sprintf(`//nav/a[text()=%q]`, title)),
		chromedp.WaitVisible(fmt.Sprintf(`//h1[text()=%q]`, title)))
}

// wait waits until an expression is true.
func (b *tab) wait(expression string) {
	b.Helper()
	b.do(chromedp.Poll(expression, nil))
}

// text returns the text of the first element that a selector finds.
func (b *tab) text(selector string) (text string) {
	b.Helper()
	b.do(chromedp.Text(selector, &text, chromedp.ByQuery))
	return text
}

// picture takes a picture of the page at both widths and in both schemes, and sees that it is no
// wider than the window.
func (b *tab) picture(name string) {
	b.Helper()
	for _, width := range []int64{400, 1400} {
		for _, scheme := range []string{"light", "dark"} {
			var inside bool
			b.do(chromedp.EmulateViewport(width, 900),
				emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
					{Name: "prefers-color-scheme", Value: scheme}}),
				chromedp.Evaluate(`document.documentElement.scrollWidth <= innerWidth`, &inside))
			if !inside {
				b.Errorf("%s is wider than %d", name, width)
			}
			if *shots == "" {
				continue
			}
			var picture []byte
			b.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
				_, _, _, _, _, size, err := page.GetLayoutMetrics().Do(ctx)
				if err != nil {
					return err
				}
				picture, err = page.CaptureScreenshot().WithCaptureBeyondViewport(true).
					WithClip(&page.Viewport{Width: float64(width), Scale: 1,
						Height: math.Min(math.Max(size.Height, 600), 1800)}).Do(ctx)
				return err
			}))
			file := fmt.Sprintf("%s-%d-%s.png", name, width, scheme)
			ok(b.T, os.WriteFile(filepath.Join(*shots, file), picture, 0o644))
		}
	}
	b.do(chromedp.EmulateViewport(1400, 900))
}

// run types a statement in place of the one that is there, and runs it by a key.
func (b *tab) run(statement string, modifiers ...input.Modifier) {
	b.Helper()
	b.wait(`document.activeElement.id === 'sql' || document.getElementById('sql').focus()`)
	b.do(chromedp.Evaluate(`document.getElementById('sql').value = ''`, nil),
		chromedp.KeyEvent(statement), chromedp.KeyEvent(kb.Escape))
	b.press(kb.Enter, append(modifiers, input.ModifierCtrl)...)
	b.wait(`document.getElementById('stop').disabled`)
}

// press presses a key.
func (b *tab) press(key string, modifiers ...input.Modifier) {
	b.Helper()
	b.do(chromedp.KeyEvent(key, chromedp.KeyModifiers(modifiers...)))
}

// expect wants a text to contain others.
func (b *tab) expect(text string, want ...string) {
	b.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			b.Errorf("no %q in %q", w, text)
		}
	}
}

// TestBrowser uses each page as a person does, by mouse and by keys.
func TestBrowser(t *testing.T) {
	b := open(t)
	if *shown != "" {
		b.pictures()
		return
	}
	b.expect(b.text("body"), hostile, "Heat", "What to do next", "may write")
	b.do(chromedp.Evaluate(`location.href`, &b.address))
	if strings.Contains(b.address, token) {
		t.Errorf("the address is %s", b.address)
	}
	b.picture("overview")
	b.query()
	b.browse()
	b.metrics()
	b.to("Advice")
	b.picture("advice")
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, bad := range b.bad {
		t.Error(bad)
	}
}

// query runs statements, and finds their words, places and plans.
func (b *tab) query() {
	b.to("Query")
	b.wait(`document.activeElement.id === 'sql'`)
	b.do(chromedp.KeyEvent("SELECT name FROM tow"))
	b.wait(`document.querySelector('#words li')?.textContent.startsWith('towns')`)
	b.press(kb.Tab)
	b.do(chromedp.KeyEvent(" WHERE peo"))
	b.wait(`document.querySelector('#words li')?.textContent.startsWith('people')`)
	b.press(kb.Tab)
	b.do(chromedp.KeyEvent(" > 99"))
	b.press(kb.Enter, input.ModifierCtrl)
	b.wait(`document.querySelectorAll('#results tbody tr').length === 50`)
	b.expect(b.text("#results"), "1 to 50 of 200 rows")
	b.do(chromedp.Click(`//button[text()="Further"]`))
	b.expect(b.text("#results"), "51 to 100 of 200 rows")
	b.run("SELECT * FROM towns WHERE country = 'C1' AND people > 50 ORDER BY people",
		input.ModifierShift)
	b.expect(b.text("#results"), "expected", "actual", "rows", "sort")
	b.picture("query-plan")
	b.run("SELECT name,\n nam FROM towns")
	b.expect(b.text("#results"), "there is no column nam", "To line 2, column 2")
	b.do(chromedp.Click("#results button", chromedp.ByQuery))
	b.wait(`getSelection() && document.activeElement.selectionStart === 14`)
	b.run(`SELECT '` + strings.ReplaceAll(hostile, "'", "''") + `' AS "<i>x"`)
	b.expect(b.text("#results"), hostile, "<i>x")
	b.run(`SELECT "<img src=x onerror=alert(3)>" FROM towns`)
	b.expect(b.text("#results"), "<img src=x onerror=alert(3)>")
	b.run("INSERT INTO towns VALUES ('C9', 'new', NULL)")
	b.expect(b.text("#results"), "1 row")
	b.run("SELECT count(*) FROM towns a, towns b, towns c")
	b.picture("query")
	b.press(kb.ArrowUp, input.ModifierAlt)
	b.press(kb.ArrowUp, input.ModifierAlt)
	b.wait(`document.getElementById('sql').value.startsWith('INSERT')`)
	b.do(chromedp.Reload())
	b.wait(`document.querySelectorAll('#history li').length > 3`)
	b.do(chromedp.Click("#history summary", chromedp.ByQuery),
		chromedp.Click("#forget", chromedp.ByQuery))
	b.wait(`document.querySelectorAll('#history li').length === 0`)
}

// browse turns pages of rows and items, and opens one.
func (b *tab) browse() {
	b.to("Browse")
	b.wait(`document.querySelectorAll('#results tbody tr').length > 0`)
	b.choose("ttowns")
	b.wait(`document.querySelector('#results')?.textContent.includes('town 000')`)
	b.expect(b.text("#results"), "50 rows; there are more")
	b.do(chromedp.Click("#further", chromedp.ByQuery))
	b.wait(`document.getElementById('state').textContent === 'page 2'`)
	b.do(chromedp.Click("#back", chromedp.ByQuery))
	b.wait(`document.getElementById('back').disabled`)
	b.do(chromedp.Click("#more", chromedp.ByQuery),
		chromedp.SendKeys(".condition input", "C3", chromedp.ByQuery))
	b.press(kb.Enter)
	b.wait(`document.querySelector('#results caption')?.textContent.startsWith('43 rows')`)
	b.picture("browse")
	b.choose("")
	b.do(chromedp.SendKeys("#pk", "<script>", chromedp.ByQuery),
		chromedp.SendKeys("#sk", "05", chromedp.ByQuery),
		chromedp.Click("#prefix", chromedp.ByQuery))
	b.press(kb.Enter)
	b.wait(`document.querySelector('#results caption')?.textContent.startsWith('1 item,')`)
	b.do(chromedp.Focus("#results tbody tr", chromedp.ByQuery))
	b.press(kb.Enter)
	b.wait(`document.getElementById('one').open`)
	var whole string
	b.do(chromedp.Evaluate(`document.getElementById('one').textContent`, &whole))
	b.expect(whole, hostile)
	b.press(kb.Escape)
	b.wait(`!document.getElementById('one').open`)
}

// choose chooses a table, or the items.
func (b *tab) choose(value string) {
	b.Helper()
	b.do(chromedp.Evaluate(fmt.Sprintf(`document.getElementById('of').value = %q;
		document.getElementById('of').dispatchEvent(new Event('change'))`, value), nil))
}

// metrics waits until the charts have values and the changes of the writer are seen.
func (b *tab) metrics() {
	b.to("Metrics")
	b.wait(`document.querySelectorAll('#charts polyline').length > 14 &&
		document.querySelector('#charts polyline').getAttribute('points').split(' ').length > 3`)
	b.wait(`document.querySelector('#changes tbody')?.textContent.includes('busy')`)
	b.wait(`Number(document.querySelector('[data-metric=kstone_commits_total]').textContent
		.replaceAll(',', '')) > 300`)
	b.picture("metrics")
}

// pictures takes pictures of the database that -db names.
func (b *tab) pictures() {
	b.picture("overview")
	b.to("Query")
	b.run("SELECT c.country, count(*) AS cities, max(c.lat) AS north\nFROM cities c\n" +
		"WHERE c.city LIKE 'San %' GROUP BY c.country ORDER BY cities DESC LIMIT 8")
	b.picture("query")
	b.run("SELECT a.city, a.country, b.country FROM cities a\nJOIN cities b ON b.city = a.city\n"+
		"WHERE a.country = 'IT' AND b.country = 'US' ORDER BY a.city LIMIT 20",
		input.ModifierShift)
	b.picture("plan")
	b.to("Browse")
	b.wait(`document.querySelectorAll('#results tbody tr').length > 0`)
	b.picture("browse")
	b.to("Metrics")
	b.wait(`document.querySelector('#charts polyline')?.getAttribute('points').length > 180`)
	b.picture("metrics")
	b.to("Advice")
	b.picture("advice")
}
