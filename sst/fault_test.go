package sst_test

import (
	"errors"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/sst"
)

// TestFailedWritesAreReported: each write of a file fails in turn, and Finish does not succeed,
// whether the failure was in Add or in itself.
func TestFailedWritesAreReported(t *testing.T) {
	broken := errors.New("broken disk")
	value := make([]byte, 1<<10)
	for at := int64(1); ; at++ {
		p := &vfs.FailPlan{At: at, Err: broken, Short: at%2 == 0}
		p.Match = func(op vfs.Op) bool { return op.Kind == vfs.OpWrite }
		f, err := vfs.NewFault(vfs.NewMem(), p.Hook).Create("file")
		if err != nil {
			t.Fatal(err)
		}
		w := sst.NewWriter(f, writerOptions(sst.WriterOptions{Codec: sst.None, FilterBits: 8}))
		for i := range 2000 {
			e := base.Entry{Key: []byte{byte(i >> 8), byte(i)}, Seq: 1, Kind: base.KindPut,
				Value: value}
			if err := w.Add(&e); err != nil && !errors.Is(err, broken) {
				t.Fatal(err)
			}
		}
		_, err = w.Finish()
		if _, failed := p.Failed(); failed != errors.Is(err, broken) {
			t.Fatalf("write %d: %v", at, err)
		} else if !failed {
			if at < 4 {
				t.Errorf("only %d writes", at-1)
			}
			return
		}
	}
}
