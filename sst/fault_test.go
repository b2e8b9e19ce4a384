package sst_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
	"github.com/kstonedb/kstone/sst"
)

// TestFailedWritesAreReported: each write of a file fails in turn, and Finish does not succeed,
// whether the failure was in Add or in itself.
func TestFailedWritesAreReported(t *testing.T) {
	broken := errors.New("broken disk")
	value := make([]byte, 1<<10)
	for at := int64(1); ; at++ {
		p := &vfstest.FailPlan{At: at, Err: broken, Short: at%2 == 0}
		p.Match = func(op vfstest.Op) bool { return op.Kind == vfstest.OpWrite }
		f, err := vfstest.NewFault(vfs.NewMem(), p.Hook).Create("file")
		ok(t, err)
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

// TestUnreadableBlockBetween: a batch without values reads neighbouring blocks at once. If the
// block between two that are asked for cannot be read, both are found.
func TestUnreadableBlockBetween(t *testing.T) {
	broken := errors.New("bad sector")
	var entries []base.Entry
	for i := range 20 { // one block each
		entries = append(entries, base.Entry{
			Key: []byte{byte(i)}, Seq: 1, Kind: base.KindPut, Value: make([]byte, 4000),
		})
	}
	mem := vfs.NewMem()
	meta := build(t, mem, sst.WriterOptions{Codec: sst.None, BlockBytes: 4000}, entries)
	failed := 0
	fs := vfstest.NewFault(mem, func(op vfstest.Op) error {
		if op.Kind == vfstest.OpReadAt && op.Offset <= 6000 && op.Offset+op.Len > 6000 {
			failed++
			return broken
		}
		return nil
	})
	r := sst.NewReader(readerOptions(fs, meta))
	defer r.Close()
	ask := func(keys ...int) error {
		var ls []base.Lookup
		var which []uint32
		for i, k := range keys {
			key := entries[k].Key
			ls = append(ls, base.Lookup{Key: key, Hash: base.Hash(key, testSeed)})
			which = append(which, uint32(i))
		}
		b := sst.Batch{KeysOnly: true}
		b.Ask(r, ls, which, 1000)
		err := b.Answer(ls, 1000)
		if err == nil && slices.ContainsFunc(ls, func(l base.Lookup) bool { return !l.Found }) {
			t.Errorf("keys %v: %+v", keys, ls)
		}
		return err
	}
	if err := ask(0, 2); err != nil || failed != 1 {
		t.Errorf("blocks around the bad one: %v after %d failed reads", err, failed)
	}
	wantIs(t, ask(1), broken)
}
