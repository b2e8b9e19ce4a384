package manifest

import (
	"errors"
	"fmt"

	"github.com/kstonedb/kstone/internal/base"
)

var (
	// ErrNotDatabase is matched when a directory holds something else than a kstone
	// database. Nothing in it was changed.
	ErrNotDatabase = errors.New("not a kstone database")

	// ErrUncertain is matched by an error of Commit when the edit may or may not be
	// found after a crash. The files that it adds must stay until a later Commit
	// succeeds or the database is opened again. Without it, a failed edit is
	// certainly not in the manifest, and its files may be removed.
	ErrUncertain = errors.New("outcome unknown until the database is opened again")
)

// tooLarge is the error of a manifest that no reader would load; nothing was written. Larger
// files make it smaller, as it holds the bounds of each.
func tooLarge(what string, bytes int64) error {
	return fmt.Errorf("%s: the manifest would have %d bytes, at most %d are read; reopen with"+
		" larger files and compact: %w", what, bytes, maxManifestBytes, base.ErrLimit)
}
