package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/corrupt"
)

// Names of packages are left out of messages, and nothing else that looks like one, such
// as the end of a file's name.
func TestPackagesAreNotNamed(t *testing.T) {
	lost := corrupt.New("094-64.sst", -1, "database", "the file", "no such file")
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("engine: open: %w", lost),
			"open: corrupt database in 094-64.sst: want the file, got no such file"},
		{errors.New("stripe: sst: wal: full"), "full"},
		{errors.New("engine: merge: sst: full"), "merge: full"},
		{errors.Join(errors.New("engine: one"), errors.New("wal: two")), "one\ntwo"},
		{errors.New("two parts (engine: closed)"), "two parts (closed)"},
		{errors.New("dump.sql: is a directory"), "dump.sql: is a directory"},
		{errors.New("no such table: towns"), "no such table: towns"},
	} {
		if got := PlainText(c.err); got != c.want {
			t.Errorf("%q is shown as %q, want %q", c.err, got, c.want)
		}
	}
}

// No message shows the password of a URL, whatever it is about.
func TestMessagesHidePasswords(t *testing.T) {
	const url = "postgres://h/n?user=me&password="
	for text, want := range map[string]string{
		"no keys postgres://me:s3cret@db/name":     "no keys postgres://me:xxxxx@db/name",
		`parse "etcd://me:s3/c@r%zz@h:1,h:2/n": x`: `parse "etcd://me:xxxxx@h:1,h:2/n": x`,
		"tikv://me:1234@h:2379/n":                  "tikv://me:xxxxx@h:2379/n",
		url + "s3cret&x=1":                         url + "xxxxx&x=1",
		"postgres://me@h:5432/n?a=b@c of me@h":     "postgres://me@h:5432/n?a=b@c of me@h",
		"http://127.0.0.1:8080/?token=x":           "http://127.0.0.1:8080/?token=x",
	} {
		var out strings.Builder
		(&App{Err: &out}).Report(Usage("%s", text).WithHint("try %s", text))
		if got := out.String(); got != fmt.Sprintf("kstone-cli: %s\n  try %s\n", want, want) {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
}
