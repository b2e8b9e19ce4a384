package mapping_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/zonemap/keyset/internal/mapping"
)

var ok = testutil.OK

// TestSaveAndOpen: what is saved is mapped, a second save replaces the file as a whole
// and leaves mappings of the first alone, and nothing else is left behind.
func TestSaveAndOpen(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	first, second := bytes.Repeat([]byte("first "), 10_000), []byte("second")
	ok(t, mapping.Save(name, first))
	data, unmap, err := mapping.Open(name)
	if err != nil || !bytes.Equal(data, first) {
		t.Fatalf("%d bytes mapped, %v", len(data), err)
	}
	defer unmap()
	ok(t, os.WriteFile(name+".tmp", []byte("left by a crash"), 0o600))
	if err := mapping.Save(name, second); err != nil {
		t.Skipf("a mapped file cannot be replaced here: %v", err)
	}
	if !bytes.Equal(data, first) {
		t.Error("the mapping of the old file has changed")
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, second) {
		t.Errorf("%q in the file, %v", got, err)
	}
	files, err := os.ReadDir(filepath.Dir(name))
	if err != nil || len(files) != 1 {
		t.Errorf("files %v, %v", files, err)
	}
}

// TestSaveFails: a save that cannot end leaves the old content and no temporary file.
func TestSaveFails(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "taken")
	ok(t, os.MkdirAll(filepath.Join(name, "by a folder"), 0o755))
	if err := mapping.Save(name, []byte("data")); err == nil {
		t.Error("a folder was replaced")
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Errorf("files %v, %v", files, err)
	}
	if err := mapping.Save(filepath.Join(dir, "no", "folder"), nil); err == nil {
		t.Error("a file was saved to a folder that is not there")
	}
}

func TestOpenOddFiles(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := mapping.Open(filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Errorf("a file that is not there: %v", err)
	}
	empty := filepath.Join(dir, "empty")
	ok(t, mapping.Save(empty, nil))
	data, unmap, err := mapping.Open(empty)
	if err != nil || len(data) != 0 {
		t.Errorf("empty file: %d bytes, %v", len(data), err)
	}
	unmap()
}

// TestAdviseHuge: a hint changes no content, of buffers of any size and alignment.
func TestAdviseHuge(t *testing.T) {
	for _, n := range []int{0, 1, 600 << 10, 5 << 20} {
		b := bytes.Repeat([]byte{7}, n)
		mapping.AdviseHuge(b)
		if bytes.Count(b, []byte{7}) != n {
			t.Errorf("%d bytes have changed", n)
		}
	}
}
