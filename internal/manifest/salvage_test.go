package manifest_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/kstonedb/kstone/internal/corrupt"
	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

// flip changes a byte of a file.
func flip(t *testing.T, fsys vfs.FS, path string, at int) {
	t.Helper()
	b := read(t, fsys, path)
	b[at] ^= 0x10
	write(t, fsys, path, b)
}

// wantOffset wants an offset in a file, or that of a file that is not there.
func wantOffset(t *testing.T, err error) {
	t.Helper()
	var c *corrupt.Error
	if errors.As(err, &c) && (c.Offset < -1 || c.Offset < 0 != (c.Got == "no such file")) {
		t.Fatalf("offset %d of %v", c.Offset, err)
	}
}

// sealBytes is the length of the record at the end of a manifest.
const sealBytes = 17

// Of several manifests the one with the newest state is taken, whichever CURRENT names.
func TestSalvageTakesTheNewestState(t *testing.T) {
	mem := vfs.NewMem()
	create(t, mem, 3)
	second := vfs.NewMem()
	l, err := makeAndCreate(second, dir, initState())
	ok(t, err)
	mustCommit(t, l, flush(1))
	ok(t, l.Close())
	write(t, mem, manifestPath(2), read(t, second, manifestPath(1)))
	write(t, mem, manifestPath(3), []byte("no manifest"))
	ok(t, mem.Remove(currentPath))
	s, err := manifest.Salvage(mem, dir, [16]byte{})
	if err != nil || s.State == nil || s.State.LastSeq != 30 || s.Name != manifest.Name(1) {
		t.Fatalf("got %+v, %v", s, err)
	}
}

// A manifest that the device cannot read in the middle gives the state before that place.
func TestSalvageOfAnUnreadableManifest(t *testing.T) {
	mem := vfs.NewMem()
	create(t, mem, 140)
	const readable = 6 << 10 // of nearly 8 KiB, read in pieces of 4
	bad := vfstest.NewFault(mem, func(op vfstest.Op) error {

		if op.Kind == vfstest.OpReadAt && op.Name == manifestPath(1) &&
			op.Offset+op.Len > readable {
			return syscall.EIO
		}
		return nil
	})
	s, err := manifest.Salvage(bad, dir, [16]byte{})
	if err != nil || s.State == nil || s.State.LastSeq == 0 || s.State.LastSeq >= 1400 || s.Whole {
		t.Fatalf("got %+v, %v", s, err)
	}
	if !errors.Is(errors.Join(s.Damage...), syscall.EIO) || mem.OpenFiles() != 0 {
		t.Errorf("damage %v, %d open files", s.Damage, mem.OpenFiles())
	}
}

// A manifest of a later version is an error even where CURRENT is not, which need not change with
// it. One flipped bit of the version is damage.
func TestSalvageOfALaterManifest(t *testing.T) {
	mem := vfs.NewMem()
	create(t, mem, 3)
	b := read(t, mem, manifestPath(1))
	b[8] = 3
	write(t, mem, manifestPath(1), b)
	s, err := manifest.Salvage(mem, dir, [16]byte{})
	if err != nil || s.State == nil || s.State.LastSeq != 30 || len(s.Damage) == 0 {
		t.Errorf("a flipped bit: %+v, %v", s, err)
	}
	sum := crc32.Checksum(b[:36], crc32.MakeTable(crc32.Castagnoli))
	binary.LittleEndian.PutUint32(b[36:], sum)
	write(t, mem, manifestPath(1), b)
	_, err = manifest.Salvage(mem, dir, [16]byte{})
	if !errors.Is(err, corrupt.ErrVersion) || !strings.Contains(err.Error(), "MANIFEST") {
		t.Errorf("a later version: %v", err)
	}
}

// TestSalvageSteps runs the cases in testdata/salvage: what Salvage returns if nothing fails, and
// if one operation does, with an error of the medium or, with "permission", with one that another
// user would not get. A failure that makes no difference is left out. The argument "of"
// names what is wrong with a database of three edits:
//
//	record    a byte of the second edit
//	snapshot  a byte of the snapshot
//	header    a byte of the manifest's header
//	nothing   nothing at all
//	current   CURRENT is missing
//	missing   the manifest is missing
//	later     CURRENT and the manifest are of a later version
//	mixed     only the manifest is
//	newer     only CURRENT is
//	numbers   CURRENT is missing, and equal states are in manifests of two lengths of name
func TestSalvageSteps(t *testing.T) {
	datadriven.Walk(t, "testdata/salvage", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var of string
			d.ScanArgs(t, "of", &of)
			cause := errIO
			if d.HasArg("permission") {
				cause = fs.ErrPermission
			}
			var hint [16]byte
			if d.HasArg("hint") {
				hint = testDBID
			}
			var out strings.Builder
			usual := ""
			for at := int64(0); ; at++ {
				mem := damaged(t, of)
				p := &vfstest.FailPlan{At: at, Err: cause}
				s, err := manifest.Salvage(vfstest.NewFault(mem, p.Hook), dir, hint)
				text := describeSalvaged(s, err)
				if n := mem.OpenFiles(); n != 0 {
					text += fmt.Sprintf("  %d files are open\n", n)
				}
				op, failed := p.Failed()
				if at > 0 && !failed {
					return filepath.ToSlash(out.String())
				}
				switch {
				case at == 0:
					out.WriteString("nothing fails\n" + text)
					usual = text
				case text != usual:
					fmt.Fprintf(&out, "%d %v %s\n%s", at, op.Kind, filepath.Base(op.Name), text)
				}
			}
		})
	})
}

func damaged(t *testing.T, of string) *vfs.MemFS {
	t.Helper()
	mem := vfs.NewMem()
	create(t, mem, 3)
	whole := read(t, mem, manifestPath(1))
	var err error
	switch of {
	case "nothing":
	case "record":
		flip(t, mem, manifestPath(1), 140)
	case "snapshot":
		flip(t, mem, manifestPath(1), 60)
	case "header":
		flip(t, mem, manifestPath(1), 20)
	case "current":
		err = mem.Remove(currentPath)
	case "missing":
		err = mem.Remove(manifestPath(1))
	case "later", "mixed", "newer":
		for _, path := range []string{manifestPath(1), currentPath} {
			if of == "mixed" && path == currentPath || of == "newer" && path != currentPath {
				continue
			}
			b := read(t, mem, path)
			b[8] = 3
			write(t, mem, path, b)
		}
	case "numbers":
		err = mem.Remove(currentPath)
		for _, num := range []uint64{999_999, 1_000_000} {
			write(t, mem, manifestPath(num), whole[:len(whole)-sealBytes])
		}
	default:
		t.Fatalf("unknown damage %s", of)
	}
	ok(t, err)
	return mem
}

func describeSalvaged(s manifest.Salvaged, err error) string {
	var b strings.Builder
	if s.State != nil {
		fmt.Fprintf(&b, "  last seq %d of %s", s.State.LastSeq, s.Name)
	} else {
		fmt.Fprintf(&b, "  no state%s", s.Name)
	}
	if s.Whole {
		b.WriteString(", whole")
	}
	fmt.Fprintf(&b, ", error %v\n", err)
	for _, d := range s.Damage {
		fmt.Fprintf(&b, "  damage: %s\n", strings.ReplaceAll(d.Error(), "\n", "; "))
	}
	return b.String()
}

// A file whose beginning cannot be opened a second time either is an error, unless the medium is
// the cause.
func TestSalvageOpensTwice(t *testing.T) {
	for _, c := range []struct{ first, second error }{
		{errIO, errIO}, {errIO, fs.ErrPermission}, {errIO, fs.ErrNotExist},
		{fs.ErrNotExist, nil}, {fs.ErrPermission, nil},
	} {
		mem := damaged(t, "header")
		opens := 0
		s, err := manifest.Salvage(vfstest.NewFault(mem, func(op vfstest.Op) error {
			if op.Kind != vfstest.OpOpen || op.Name != manifestPath(1) {
				return nil
			}
			switch opens++; opens {
			case 2:
				return c.first
			case 3:
				return c.second
			}
			return nil
		}), dir, testDBID)
		isError := errors.Is(c.first, fs.ErrPermission) || errors.Is(c.second, fs.ErrPermission)
		if isError != errors.Is(err, fs.ErrPermission) || !isError && err != nil {
			t.Errorf("%v, then %v: %v", c.first, c.second, err)
		}
		if s.State != nil || len(s.Damage) == 0 {
			t.Errorf("%v, then %v: got %+v", c.first, c.second, s)
		}
		for _, err := range s.Damage {
			wantOffset(t, err)
		}
	}
}
