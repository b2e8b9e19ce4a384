package wal_test

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/testutil"
	"github.com/kstonedb/kstone/wal"
)

// resum makes the checksum of the record at off right, if its length is one that it can have.
func resum(b []byte, off int) {
	n := binary.LittleEndian.Uint32(b[off+4:])
	if n == math.MaxUint32 {
		n = 0
	}
	head := off + 24
	if body := b[head:]; uint64(n) <= uint64(len(body)) {
		crc := castagnoli(body[:n])
		binary.LittleEndian.PutUint32(b[off:], updateCastagnoli(crc, b[off+4:head]))
	}
}

// TestCraftedRecordHeaders: whatever fields a record has under a right checksum, Recover gives
// the records before it or says that there is damage, and Salvage ends, too. How many records a
// crafted one takes with it depends on the length that it claims.
func TestCraftedRecordHeaders(t *testing.T) {
	testutil.SlowUnderRace(t, "one goroutine")
	o, img := closedImage(t)
	for _, r := range img.records() {
		whole := img[r.file]
		testutil.EachChange(whole[r.off+4:r.off+24], func(c []byte) {
			if len(c) < 20 {
				return // the file has no other length
			}
			crafted := img.clone()
			b := crafted[r.file]
			copy(b[r.off+4:], c)
			resum(b, r.off)
			co := crafted.restore(t, o)
			var n base.SeqNum
			if _, err := wal.Recover(co, 0, 1, count(&n)); err == nil {
				if n+1 < r.seq {
					t.Fatalf("%d records although the damage is in record %d", n, r.seq)
				}
			} else if !errors.Is(err, corrupt.ErrCorrupt) {
				t.Fatal(err)
			}
			rep, err := wal.Salvage(co, 0, func(base.SeqNum, []byte) error { return nil })
			if err != nil || rep.Records+1 < int64(r.seq) {
				t.Fatalf("%d records saved, damage in record %d: %v", rep.Records, r.seq, err)
			}
		})
	}
}

// TestCraftedPayloads: every beginning and every changed byte of a payload are operations that
// are written so, or damage.
func TestCraftedPayloads(t *testing.T) {
	p := wal.AppendPut(nil, []byte("pk"), []byte("sk"), []byte("value"))
	p = wal.AppendPutTTL(p, []byte("pk"), nil, nil, 1<<40)
	p = wal.AppendDelete(p, []byte("pk"), nil)
	p = wal.AppendDeleteRange(p, []byte("a"), []byte("b"))
	testutil.EachChange(p, func(b []byte) { checkOps(t, b) })
}
