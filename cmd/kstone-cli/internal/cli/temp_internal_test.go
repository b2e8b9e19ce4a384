package cli

import (
	"io"
	"os"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
)

// A temporary file holds what is written, and leaves nothing.
func TestTemp(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir)
	f, err := newTemp()
	testutil.OK(t, err)
	if _, err := io.WriteString(f, "abcdef"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 3)
	if _, err := f.ReadAt(got, 2); err != nil || string(got) != "cde" {
		t.Errorf("%q, %v", got, err)
	}
	f.Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}
