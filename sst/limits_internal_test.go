package sst

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/vfs"
)

// limited returns a writer whose readers accept blocks of up to most bytes.
func limited(t *testing.T, most int, o WriterOptions) (*Writer, vfs.FS) {
	t.Helper()
	fsys := vfs.NewMem()
	o.FileNum, o.maxRawBytes, o.Codec = 1, most, LZ4
	f, err := fsys.Create(base.SSTName(0, 1))
	ok(t, err)
	return NewWriter(f, o), fsys
}

func limitKey(i, n int) []byte {
	return append(fmt.Appendf(nil, "%06d", i), strings.Repeat("k", n)...)
}

// A writer refuses a block that readers would take for damage, whichever it is.
//
// Promise (manners): Every writer refuses what its readers refuse, before anything is committed,
// and that is no failure for good. Also `TestFullBeforeABlockIsTooLarge`,
// `TestLongestKeysAndBounds` in `sst`, `TestManifestKeepsToItsLimit`,
// `TestManifestOfExactlyTheLimit` in `internal/manifest`, `TestFailuresForGood` in
// `engine/internal/upkeep`.
func TestWriterRefusesWhatReadersRefuse(t *testing.T) {
	const most = 4 << 10
	for what, fill := range map[string]func(w *Writer, n int) error{
		"index": func(w *Writer, n int) error {
			if n > 5 {
				return nil
			}
			return w.Add(&base.Entry{ // in a block of its own
				Key: limitKey(n, 1500), Kind: base.KindPut, Value: make([]byte, maxBlockBytes),
			})
		},
		"range tombstone block": func(w *Writer, n int) error {
			return w.AddRangeTombstone(base.RangeTombstone{
				Start: limitKey(n, 300), End: limitKey(n+1, 0), Seq: 1,
			})
		},
		"filter": func(w *Writer, n int) error {
			return w.Add(&base.Entry{Key: fmt.Appendf(nil, "%08d", n), Kind: base.KindDelete})
		},
		"properties": func(w *Writer, n int) error {
			if n > 1 {
				return nil
			}
			return w.Add(&base.Entry{Key: limitKey(n, most), Kind: base.KindDelete})
		},
	} {
		t.Run(what, func(t *testing.T) {
			refused := 0
			for _, n := range []int{1, 5, 2000} {
				o := WriterOptions{BlockBytes: 256}
				switch what {
				case "filter":
					o.FilterBits, o.BlockBytes = 16, maxBlockBytes
				case "properties":
					o.maxRawBytes = most
				}
				w, fsys := limited(t, most, o)
				if what == "properties" { // the index would be refused before
					w.o.BlockBytes = maxBlockBytes
				}
				for i := range n {
					ok(t, fill(w, i))
				}
				meta, err := w.Finish()
				if err != nil {
					refused++
					if !errors.Is(err, base.ErrLimit) {
						t.Errorf("%d of them: %v", n, err)
					}
					continue
				}
				r := NewReader(ReaderOptions{FS: fsys, Meta: &meta})
				tail, err := r.loadTail()
				ok(t, err)
				for _, h := range append(handlesOf(tail), tail.footer.properties) {
					if !h.check(meta.SizeBytes, most) {
						t.Errorf("%d of them: a block of %d bytes is written", n, h.raw)
					}
				}
			}
			if refused == 0 {
				t.Error("nothing is refused")
			}
		})
	}
}

// handlesOf returns the blocks that readers bound by maxRawBytes.
func handlesOf(t *tail) []blockHandle {
	handles := []blockHandle{t.footer.index}
	if t.footer.ranges != (blockHandle{}) {
		handles = append(handles, t.footer.ranges)
	}
	for _, p := range t.props.partitions {
		handles = append(handles, p.handle)
	}
	return handles
}

// A file is full before one of its blocks is too large, whatever FileBytes is, and also if
// the key that it ends with has many versions.
func TestFullBeforeABlockIsTooLarge(t *testing.T) {
	const most = 64 << 10
	o := WriterOptions{BlockBytes: 256, FileBytes: 1 << 40, maxRawBytes: most}
	for seq, versions := range []int{1, 1000} {
		w, _ := limited(t, most, o)
		n := 0
		for ; n < 10_000; n++ {
			key := limitKey(n, 3000)
			e := base.Entry{Key: key, Kind: base.KindPut, Seq: base.SeqNum(versions)}
			if w.Full(&e) {
				break
			}
			for range versions {
				if w.lastKey != nil && w.Full(&e) && bytes.Equal(w.lastKey, key) {
					t.Fatal("a file is full between the versions of a key")
				}
				ok(t, w.Add(&e))
				e.Seq--
			}
		}
		if _, err := w.Finish(); err != nil || n == 0 || n == 10_000 {
			t.Errorf("case %d: full after %d keys of %d versions: %v", seq, n, versions, err)
		}
	}
	w, _ := limited(t, most, o)
	n := 0
	for ; !w.Full(nil); n++ {
		err := w.AddRangeTombstone(base.RangeTombstone{
			Start: limitKey(n, 1000), End: limitKey(n+1, 1000), Seq: 1,
		})
		ok(t, err)
	}
	if !w.Full(&base.Entry{Key: []byte("a")}) {
		t.Error("a file that is full of range tombstones takes entries")
	}
	if _, err := w.Finish(); err != nil || n < 10 {
		t.Errorf("full after %d range tombstones: %v", n, err)
	}
}

// The longest key, its successor as a bound on either side, and nothing longer.
func TestLongestKeysAndBounds(t *testing.T) {
	key := make([]byte, MaxKeyBytes)
	bound, after := append(bytes.Clone(key), 0), append(bytes.Clone(key), 1)
	w, fsys := limited(t, maxRawBytes, WriterOptions{})
	for _, err := range []error{
		w.AddRangeTombstone(base.RangeTombstone{Start: bound, End: after, Seq: 1}),
		w.AddRangeTombstone(base.RangeTombstone{Start: key, End: bound, Seq: 2}),
		w.Add(&base.Entry{Key: key, Kind: base.KindPut, Seq: 3}),
	} {
		ok(t, err)
	}
	meta, err := w.Finish()
	ok(t, err)
	r := NewReader(ReaderOptions{FS: fsys, Meta: &meta})
	if list, err := r.RangeTombstones(); err != nil || len(list) != 2 {
		t.Errorf("%d range tombstones, %v", len(list), err)
	}
	for _, rt := range []base.RangeTombstone{
		{Start: append(bound, 0), End: []byte{1}, Seq: 1}, {End: append(bound, 0), Seq: 1},
	} {
		w, _ := limited(t, maxRawBytes, WriterOptions{})
		if err := w.AddRangeTombstone(rt); err == nil {
			t.Error("a bound that is too long is accepted")
		}
	}
}
