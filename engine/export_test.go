package engine

import (
	"context"

	"github.com/kstonedb/kstone/internal/vfs"
)

// What the tests of package engine_test call on file systems of their own.
var OpenFS = openOn

func RepairFS(ctx context.Context, fsys vfs.FS, src, dest string, o *Options) (RepairReport,
	error) {
	return repairOn(ctx, fsys, src, dest, o, nil)
}
