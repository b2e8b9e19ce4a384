package command_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kstonedb/kstone/engine"
)

// TestConsoleAndTop serves a console on a terminal, opens its page, and watches it and the database
// from other terminals.
//
// Promise (manners): `top` shows a running database through its console, or as a reader beside it,
// and leaves the terminal as it was, by q or Ctrl-C; a console ends by Ctrl-C.
func TestConsoleAndTop(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "c.db")
	e, err := engine.Open(db, nil)
	ok(t, err)
	ok(t, e.Put(engine.K("k", "s"), []byte("v")))
	ok(t, e.Close())
	served := startTerminal(t, nil, "console", db, "--write")
	served.expect("Ctrl-C ends the console")
	served.mu.Lock()
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/\?token=\w+`).FindString(served.out.String())
	served.mu.Unlock()
	jar, err := cookiejar.New(nil)
	ok(t, err)
	answer, err := (&http.Client{Jar: jar}).Get(address)
	ok(t, err)
	page, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil || answer.StatusCode != http.StatusOK || answer.Request.URL.RawQuery != "" ||
		!strings.Contains(string(page), "<strong>c.db</strong>") {
		t.Errorf("%v %v, %s %s", err, answer.Status, answer.Request.URL, page)
	}

	for _, c := range []struct{ of, want, key string }{
		{address, "stalls", "q"},
		{db, "read beside the writer", ctrlC},
	} {
		x := startTerminal(t, nil, "top", c.of)
		x.expect(c.want)
		x.expect("q ends")
		x.send(c.key)
		out, code := x.rest()
		if !strings.HasSuffix(out, "\x1b[?25h\x1b[?1049l") || code != 0 {
			t.Errorf("top %s ends with %d after %q", c.of, code, out)
		}
		const usual = unix.ICANON | unix.ECHO | unix.ISIG
		if modes := modesOf(t, x); modes&usual != usual {
			t.Errorf("the modes of the terminal are %x", modes)
		}
	}

	served.send(ctrlC)
	if out, code := served.rest(); code != 0 {
		t.Errorf("the console ends with %d after %q", code, out)
	}
}

// modesOf returns the local modes of a terminal, whether it echoes and the like.
func modesOf(t *testing.T, x *terminal) uint32 {
	t.Helper()
	modes, err := unix.IoctlGetTermios(int(x.master.Fd()), unix.TCGETS)
	ok(t, err)
	return modes.Lflag
}

// TestConsoleAndTopInAShell serves a console of a shell's database, and watches it.
//
// Promise (manners): console and top show the database of a shell, which goes on after them.
func TestConsoleAndTopInAShell(t *testing.T) {
	t.Parallel()
	s := startTerminal(t, []string{"KSTONE_HISTORY=", "HOME=" + t.TempDir()}, "shell")
	s.prompt()
	s.send("console" + enter)
	s.expect("Ctrl-C ends the console")
	s.send(ctrlC)
	s.prompt()
	s.send("top" + enter)
	s.expect("q ends")
	s.send("q")
	s.prompt()
	s.send("select 40 + 2 as sum;" + enter)
	s.expect("42")
	s.prompt()
	s.send(ctrlD)
	s.rest()
}
