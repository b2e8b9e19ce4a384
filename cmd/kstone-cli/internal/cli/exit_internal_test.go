package cli

import (
	"errors"
	"fmt"
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
