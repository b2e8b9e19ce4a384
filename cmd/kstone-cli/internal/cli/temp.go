package cli

import (
	"os"

	"github.com/kstonedb/kstone/engine/store"
)

// tempFile is a file in the system's directory for temporary files, for queries of a database that
// is not written to.
type tempFile struct{ *os.File }

// newTemp makes a temporary file. Where the system lets it, its name is removed at once, so that a
// killed process leaves nothing.
func newTemp() (store.TempFile, error) {
	f, err := os.CreateTemp("", "kstone-spill-")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name()) // else by Close
	return tempFile{f}, nil
}

// Close implements store.TempFile.
func (f tempFile) Close() {
	_ = f.File.Close()
	_ = os.Remove(f.Name())
}
