package ship_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/ship"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// A restore that was interrupted, continued and finished is durable: what the first call had
// written and not synced is synced by the second.
//
// Promise (shipping): A power cut after Restore has returned takes nothing of it back, also if an
// earlier call was interrupted.
func TestRestoreIsDurable(t *testing.T) {
	h := newHarbor(t)
	for i := range 300 {
		h.last++
		ok(t, h.db.Put(engine.Key{PK: fmt.Append(nil, i)}, make([]byte, 1000)))
	}
	s := h.start(ship.Options{})
	h.put()
	ok(t, s.Close(ctx))
	disk := vfstest.NewCrash()
	dead := vfstest.NewFault(disk, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpSync && strings.HasSuffix(op.Name, ".sst") {
			return errServer
		}
		return nil
	})
	_, err := ship.RestoreOn(ctx, h.dest, dead, "db", nil)
	wantIs(t, err, errServer)
	_, err = ship.RestoreOn(ctx, h.dest, disk, "db", nil)
	ok(t, err)
	db := openOn(t, vfstest.CrashOf(disk.PowerCut(testutil.Rand(t), 0)),
		engine.Options{MustExist: true})
	defer func() { ok(t, db.Close()) }()
	if n, err := db.CountScan(ctx, engine.Scan{}); n != 301 || err != nil {
		t.Errorf("%d items, %v", n, err)
	}
	_, err = db.Verify(ctx, nil)
	ok(t, err)
}
