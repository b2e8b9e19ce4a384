package wal_test

import (
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/wal"
)

// The example of the format page is what the code writes.
func TestFormatPage(t *testing.T) {
	fsys := vfs.NewMem()
	ok(t, fsys.MkdirAll("db"))
	l := openNew(t, wal.Options{FS: fsys, Dir: "db", DBID: testDBID, SegmentBytes: 256,
		UseID: func() uint64 { return 0x1122334455667788 }})
	p := wal.AppendPut(nil, []byte("user#123"), nil, []byte("hello"))
	ok(t, second(l.Append(wal.AppendDelete(p, []byte("user#7"), []byte("cart")))))
	ok(t, l.Close())
	written := snapshot(t, fsys, "db")["wal-0000000001.log"]
	testutil.PageShows(t, "../docs/format/wal.md", written)
}
