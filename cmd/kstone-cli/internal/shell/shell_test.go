package shell_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/shell"
	"github.com/kstonedb/kstone/internal/testutil"
)

func texts(words []shell.Word) []string {
	out := []string{}
	for _, w := range words {
		out = append(out, w.Text)
	}
	return out
}

func TestSplit(t *testing.T) {
	for in, want := range map[string][]string{
		``:                          {},
		`  get   a  `:               {"get", "a"},
		`get 'a b' "c d"`:           {"get", "a b", "c d"},
		`get "a\n\x00\u00e9\"\xff"`: {"get", "a\n\x00é\"\xff"},
		`get 'a\n'`:                 {"get", `a\n`},
		`get a\ b\\`:                {"get", `a b\`},
		`get a'b'"c"d`:              {"get", "abcd"},
		`get '' ""`:                 {"get", "", ""},
		`get a # comment`:           {"get", "a"},
		`get user#1`:                {"get", "user#1"},
		`-- a comment`:              nil,
		`get -- a`:                  {"get", "--", "a"},
		`--help`:                    {"--help"},
		"get \xff\"\xff\"":          {"get", "\xff\xff"},
		"put k \"a\nb\"":            {"put", "k", "a\nb"},
		`put k '{"a":1}'`:           {"put", "k", `{"a":1}`},
	} {
		words, err := shell.Split(in)
		if err != nil || !slices.Equal(texts(words), want) {
			t.Errorf("%q: %q, %v; want %q", in, texts(words), err, want)
		}
	}
	for typed, want := range map[string]string{
		``: `"a b'"`, `a`: `a\ b\'`, `"a`: `"a b'"`,
	} {
		got := shell.Completed(typed, "a b'")
		if words, err := shell.Split(got); got != want || err != nil || words[0].Text != "a b'" {
			t.Errorf("%s is completed to %s, %v", typed, got, err)
		}
	}
	for _, in := range []string{`get "a`, `get 'a`, `get "a\`} {
		if _, err := shell.Split(in); !errors.Is(err, shell.ErrOpenQuote) {
			t.Errorf("%q: %v", in, err)
		}
	}
	if _, err := shell.Split(`get "\q"`); err == nil || errors.Is(err, shell.ErrOpenQuote) {
		t.Errorf("a bad escape: %v", err)
	}
}

func TestLast(t *testing.T) {
	for in, want := range map[string]struct {
		words []string
		last  shell.Word
	}{
		``:                {[]string{}, shell.Word{Start: 0}},
		`ge`:              {[]string{}, shell.Word{Text: "ge", Start: 0}},
		`get `:            {[]string{"get"}, shell.Word{Start: 4}},
		`get "Provincia `: {[]string{"get"}, shell.Word{Text: "Provincia ", Start: 4}},
		`get "a b" c`:     {[]string{"get", "a b"}, shell.Word{Text: "c", Start: 10}},
		`get a\ `:         {[]string{"get"}, shell.Word{Text: "a ", Start: 4}},
	} {
		words, last := shell.Last(in)
		if !slices.Equal(texts(words), want.words) || last != want.last {
			t.Errorf("%q: %q, %+v", in, texts(words), last)
		}
	}
}

// A quoted word is one word again, and nothing makes Split panic.
func FuzzQuote(f *testing.F) {
	f.Add("plain")
	f.Add("a b\n\x00\xff\"'\\#é")
	f.Add("#")
	f.Fuzz(func(t *testing.T, text string) {
		defer testutil.Watch(text)()
		shell.Last(text)
		words, err := shell.Split("get " + shell.Quote(text) + " x")
		if err != nil || !slices.Equal(texts(words), []string{"get", text, "x"}) {
			t.Fatalf("%q as %s: %q, %v", text, shell.Quote(text), texts(words), err)
		}
		if words, err := shell.Split(text); err == nil {
			for _, w := range words {
				if w.Start >= len(text) {
					t.Fatalf("%q: word after the end", text)
				}
			}
		}
	})
}

func TestHistory(t *testing.T) {
	name := filepath.Join(t.TempDir(), "deep", "history")
	h := shell.OpenHistory(name)
	if lines := h.Lines(); len(lines) != 0 {
		t.Fatalf("a new history has %q", lines)
	}
	long := strings.Repeat("x", 3<<20)
	h.Add(long)
	h.Add("get a")
	h.Add(" get secret")
	h.Add("put k 'a\nb'")
	h.Add("")
	h.Add("get b")
	if got := shell.OpenHistory(name).Lines(); !slices.Equal(got,
		[]string{long, "get a", "put k 'a\nb'", "get b"}) {
		t.Errorf("history %.100q", got)
	}
	info, err := os.Stat(name)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(name, []byte(strings.Repeat("old\n", 5000)+"\xff\nnew\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if got := h.Lines(); len(got) != 1000 || got[999] != "new" {
		t.Errorf("%d lines, last %q", len(got), got[len(got)-1])
	}
	if shell.OpenHistory("").Add("x") {
		t.Error("a history without a file kept a line")
	}
}

func TestHistoryFile(t *testing.T) {
	t.Setenv("KSTONE_HISTORY", "")
	if got := shell.HistoryFile(); got != "" {
		t.Errorf("switched off, but %q", got)
	}
	t.Setenv("KSTONE_HISTORY", "/x/y")
	if got := shell.HistoryFile(); got != "/x/y" {
		t.Errorf("%q", got)
	}
	os.Unsetenv("KSTONE_HISTORY")
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", dir)
	if got := shell.HistoryFile(); got != filepath.Join(dir, "kstone", "history") {
		t.Errorf("%q", got)
	}
}
