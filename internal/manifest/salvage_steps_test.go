package manifest_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/kstonedb/kstone/internal/manifest"
	"github.com/kstonedb/kstone/internal/vfs"
	"github.com/kstonedb/kstone/internal/vfs/vfstest"
)

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
			b[8]++
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
	if err != nil {
		t.Fatal(err)
	}
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
