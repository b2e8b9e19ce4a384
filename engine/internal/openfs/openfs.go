// Package openfs opens databases on any file system, for the tests of packages above engine.
// Why not a function of engine: the interface of file systems is internal, so that no other
// program could call it.
package openfs

import "github.com/kstonedb/kstone/internal/vfs"

// Open is engine.Open on a file system: options are an *engine.Options, and the database is an
// *engine.DB. Package engine sets it.
var Open func(fsys vfs.FS, dir string, options any) (db any, err error)
