package shell_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/cmd/kstone-cli/internal/shell"
	"github.com/kstonedb/kstone/internal/testutil"
)

func isKeyword(word string) bool { return strings.EqualFold(word, "select") }

func TestHighlight(t *testing.T) {
	for in, want := range map[string]string{
		"select a1, 1.5": "\x1b[1;34mselect\x1b[0m a1, \x1b[35m1.5\x1b[0m",
		"'it''s' -- x":   "\x1b[32m'it'\x1b[0m\x1b[32m's'\x1b[0m \x1b[2m-- x\x1b[0m",
		"selected /* a":  "selected \x1b[2m/* a\x1b[0m",
	} {
		if got := shell.Highlight(in, isKeyword); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Colours change no character of a text.
func FuzzHighlight(f *testing.F) {
	f.Add("select 'a' -- \n\xff \x1b[0m")
	escapes := regexp.MustCompile("\x1b\\[[0-9;]*m")
	f.Fuzz(func(t *testing.T, text string) {
		defer testutil.Watch(text)()
		got := escapes.ReplaceAllString(shell.Highlight(text, isKeyword), "")
		if got != escapes.ReplaceAllString(text, "") && !strings.Contains(text, "\x1b") {
			t.Fatalf("%q became %q", text, got)
		}
	})
}
