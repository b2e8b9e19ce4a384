package engine

import (
	"errors"
	"io"
	"path/filepath"

	"github.com/kstonedb/kstone/engine/internal/salvage"
)

// InspectFile writes a description of one file of a database, for people: a log
// segment, an SST, a manifest or CURRENT, told apart by its name. Damage is described
// as far as it can be read and returned as an error that matches ErrCorrupt. It takes
// no lock; of a database that is open elsewhere it may see half of a last record.
func InspectFile(name string, w io.Writer) error {
	err := salvage.Describe(name, w, describeSettings)
	if errors.Is(err, salvage.ErrFileName) {
		return invalid("%s is not the name of a kstone file (want wal-*.log, "+
			"NNN-*.sst, MANIFEST-* or CURRENT)", filepath.Base(name))
	}
	return err
}
