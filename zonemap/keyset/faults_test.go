package keyset_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/zonemap/keyset"
)

// faultyReader fails read number fail, or ends in it, and reads the others; like some readers
// it returns io.EOF beside whole data.
type faultyReader struct {
	data  []byte
	fail  int
	short bool
	reads int
}

func (r *faultyReader) ReadAt(p []byte, off int64) (int, error) {
	r.reads++
	switch n := copy(p, r.data[off:]); {
	case r.reads-1 != r.fail:
		return n, io.EOF
	case r.short:
		return len(p) - 1, io.EOF
	default:
		return len(p) - 1, errRead
	}
}

func (r *faultyReader) Name() string { return "faulty" }

// TestEveryReadCanFail: whichever read of a question fails or ends early, the question
// returns an error that says so, and the next question is answered.
func TestEveryReadCanFail(t *testing.T) {
	rnd := rand.New(rand.NewPCG(81, 1))
	keys := randomHashes(rnd, 60)
	asBytes := make([][]byte, len(keys))
	for i, k := range keys {
		asBytes[i] = be(k)
	}
	name := filepath.Join(t.TempDir(), "segment")
	for label, ask := range map[string]func(*keyset.Set, *keyset.Segment) error{
		"batch": func(set *keyset.Set, _ *keyset.Segment) error {
			return set.ContainsBatch(keys, keyset.NewBitmap(len(keys)))
		},
		"batch of bytes": func(set *keyset.Set, _ *keyset.Segment) error {
			return set.ContainsBytesBatch(asBytes, keyset.NewBitmap(len(keys)))
		},
		"new": func(set *keyset.Set, _ *keyset.Segment) error {
			got, err := set.New([]uint64{7}, keys)
			if len(got) != 1 || got[0] != 7 {
				return fmt.Errorf("%d new keys", len(got))
			}
			return err
		},
		"one": func(set *keyset.Set, _ *keyset.Segment) error {
			_, err := set.Contains(keys[0])
			return err
		},
		"segment": func(_ *keyset.Set, seg *keyset.Segment) error {
			_, err := seg.Contains(keys[0])
			return err
		},
		"verify": func(_ *keyset.Set, seg *keyset.Segment) error { return seg.Verify() },
		"bytes": func(_ *keyset.Set, seg *keyset.Segment) error {
			_, err := seg.AppendBinary(nil)
			return err
		},
		"save": func(_ *keyset.Set, seg *keyset.Segment) error { return seg.Save(name) },
	} {
		for _, o := range []keyset.SegmentOptions{{}, {Bits: 16, StoreKeys: true, BlockKeys: 9},
			{StoreKeys: true, Shards: 4}} {
			data := binaryOf(t, mustBuild(t, &o, keys)[0])
			for n := 0; ; n++ {
				fails, whole := askFaulty(t, data, n, o.StoreKeys && label != "segment", ask)
				if fails != nil {
					t.Errorf("%s of %+v, read %d: %v", label, o, n, fails)
				}
				if whole {
					break
				}
			}
		}
	}
}

// askFaulty opens a segment whose read n fails, or ends early, and asks it; then again. It
// reports what is wrong, and whether there was no such read.
func askFaulty(t *testing.T, data []byte, n int, exact bool,
	ask func(*keyset.Set, *keyset.Segment) error) (wrong error, whole bool) {
	t.Helper()
	for _, short := range []bool{false, true} {
		r := &faultyReader{data: data, fail: n, short: short}
		set := keyset.NewSet(&keyset.SetOptions{Exact: exact})
		seg, err := keyset.OpenSegmentAt(r, int64(len(data)), keyset.NewCache(0))
		if err == nil {
			if err = set.Append(seg); err == nil {
				err = ask(set, seg)
			}
			if r.reads <= n {
				return err, true
			}
			if again := ask(set, seg); again != nil {
				return fmt.Errorf("the next question: %w", again), false
			}
		}
		if !short && !errors.Is(err, errRead) ||
			short && !errors.Is(err, io.EOF) && !errors.Is(err, corrupt.ErrCorrupt) {
			return fmt.Errorf("the error is %v", err), false
		}
	}
	return nil, false
}

// TestReadErrors: the errors of reads name what was read.
func TestReadErrors(t *testing.T) {
	data := binaryOf(t, mustBuild(t, &keyset.SegmentOptions{StoreKeys: true},
		[]uint64{1, 1 << 40, 1 << 50})[0])
	for n, want := range []string{"keyset: read header of a segment: ",
		"keyset: read directory of a segment: ", "keyset: read segment faulty at 164: "} {
		for _, short := range []bool{false, true} {
			r := &faultyReader{data: data, fail: n, short: short}
			seg, err := keyset.OpenSegmentAt(r, int64(len(data)), nil)
			if err == nil {
				_, err = seg.Contains(1)
			}
			text := want + "read failed"
			if short {
				text = want + "EOF"
			}
			if short && n == 2 {
				text = "corrupt segment in faulty at offset 164: want 52 bytes, got 51"
			}
			if err == nil || err.Error() != text {
				t.Errorf("read %d fails with %v, want %s", n, err, text)
			}
		}
	}
	r := &faultyReader{data: data, fail: 2}
	seg, err := keyset.OpenSegmentAt(r, int64(len(data)), nil)
	ok(t, err)
	got, err := seg.AppendBinary([]byte("x"))
	if err == nil || err.Error() != "keyset: read segment faulty: read failed" ||
		string(got) != "x" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestFilesOfSegments: a segment is saved as a whole, from memory or from a reader; what
// cannot be opened or saved is an error that names the file.
func TestFilesOfSegments(t *testing.T) {
	dir := t.TempDir()
	seg := mustBuild(t, nil, []uint64{1, 1 << 40, 1 << 50})[0]
	want := binaryOf(t, seg)
	for _, s := range []*keyset.Segment{seg, openBytes(t, want, true)} {
		name := filepath.Join(dir, "segment")
		ok(t, s.Save(name))
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes are saved, %v", len(got), err)
		}
		ok(t, os.Remove(name))
	}
	nowhere := filepath.Join(dir, "no", "segment")
	if err := seg.Save(nowhere); !errors.Is(err, os.ErrNotExist) ||
		!strings.HasPrefix(err.Error(), "keyset: save segment: ") {
		t.Errorf("saved nowhere: %v", err)
	}
	if _, err := keyset.OpenSegment(nowhere); !errors.Is(err, os.ErrNotExist) ||
		!strings.HasPrefix(err.Error(), "keyset: open segment: ") {
		t.Errorf("opened nowhere: %v", err)
	}
	name := filepath.Join(dir, "damaged")
	ok(t, os.WriteFile(name, want[:len(want)-1], 0o644))
	if _, err := keyset.OpenSegment(name); !errors.Is(err, corrupt.ErrCorrupt) ||
		!strings.Contains(err.Error(), name) {
		t.Errorf("a file that is cut off: %v", err)
	}
}
