package engine_test

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// Whatever is in the files, repair comes to an end, without a panic, and what it makes is a
// database. Method: bytes of the fuzzer's choice at a place of a file of a small database,
// which ends there or goes on.
func FuzzRepair(f *testing.F) {
	files, _ := rescueDatabase(f, false)
	names := slices.Sorted(maps.Keys(files))
	for i := range names {
		f.Add(uint8(i), uint32(0), []byte{}, true)
		f.Add(uint8(i), uint32(64), []byte("KSTNMANI\x01\x00\x00\x00"), false)
		f.Add(uint8(i), uint32(200), bytes.Repeat([]byte{0, 0, 1, 0}, 100), false)
	}
	f.Fuzz(func(t *testing.T, file uint8, at uint32, data []byte, cut bool) {
		defer testutil.Watch(file, at, data, cut)()
		name := names[int(file)%len(names)]
		whole := files[name]
		from := min(int(at), len(whole))
		b := append(bytes.Clone(whole[:from]), data...)
		if !cut && len(b) < len(whole) {
			b = append(b, whole[len(b):]...)
		}
		damaged := maps.Clone(files)
		damaged[name] = b
		mem := damaged.store(t)
		o := rescueOptions
		if _, err := engine.RepairFS(ctx, mem, "db", "new", &o); err != nil {
			if left, lerr := mem.List("new"); lerr == nil && len(left) > 0 {
				t.Fatalf("%v, and %v is left behind", err, left)
			}
			return
		}
		db, err := engine.OpenFS(mem, "new", &o)
		ok(t, err)
		ok(t, second(db.Verify(ctx, nil)))
		mustClose(t, db)
	})
}
