package manifest_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/kstonedb/kstone/internal/base"
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

// salvaged wants the state with this LastSeq, none for zero, and this many damaged files.
func salvaged(t *testing.T, mem *vfs.MemFS, hint [16]byte, last base.SeqNum, damaged int,
) manifest.Salvaged {
	t.Helper()
	s, err := manifest.Salvage(mem, dir, hint)
	if err != nil {
		t.Fatal(err)
	}
	if n := mem.OpenFiles(); n != 0 {
		t.Fatalf("%d files are open", n)
	}
	switch {
	case (s.State != nil) != (last > 0) || last > 0 && s.State.LastSeq != last:
		t.Fatalf("state %+v with damage %v, want one up to %d", s.State, s.Damage, last)
	case len(s.Damage) != damaged:
		t.Fatalf("damage %v, want %d files", s.Damage, damaged)
	case s.Whole != (damaged == 0):
		t.Fatalf("whole is %t with damage %v", s.Whole, s.Damage)
	}
	for _, err := range s.Damage {
		if !errors.Is(err, corrupt.ErrCorrupt) && !vfs.Unreadable(err) {
			t.Fatalf("damage of another class: %v", err)
		}
		wantOffset(t, err)
	}
	return s
}

// wantOffset wants an offset in a file, or that of a file that is not there.
func wantOffset(t *testing.T, err error) {
	t.Helper()
	var c *corrupt.Error
	if errors.As(err, &c) && (c.Offset < -1 || c.Offset < 0 != (c.Got == "no such file")) {
		t.Fatalf("offset %d of %v", c.Offset, err)
	}
}

func TestSalvageOfAWholeManifest(t *testing.T) {
	mem := vfs.NewMem()
	create(t, mem, 3)
	if s := salvaged(t, mem, [16]byte{}, 30, 0); s.Name != manifest.Name(1) {
		t.Errorf("state of %q", s.Name)
	}
}

// Without CURRENT, and with one that is damaged, the manifest is found by its name. One that has
// no seal, as after a crash, is no damage.
func TestSalvageWithoutCurrent(t *testing.T) {
	for _, seal := range []bool{true, false} {
		mem := vfs.NewMem()
		create(t, mem, 3)
		b := read(t, mem, manifestPath(1))
		if !seal {
			write(t, mem, manifestPath(1), b[:len(b)-sealBytes])
		}
		flip(t, mem, currentPath, 30)
		s := salvaged(t, mem, [16]byte{}, 30, 1)
		if !strings.Contains(s.Damage[0].Error(), manifest.CurrentName) {
			t.Errorf("damage %v", s.Damage)
		}
		if err := mem.Remove(currentPath); err != nil {
			t.Fatal(err)
		}
		salvaged(t, mem, [16]byte{}, 30, 1)
	}
}

// sealBytes is the length of the record at the end of a manifest.
const sealBytes = 17

// A damaged header does not say which database the records are of. CURRENT says it, or the
// other files do; if nothing does there is no state.
func TestSalvageOfADamagedHeader(t *testing.T) {
	for at := range 40 {
		if at/4 == 2 {
			continue // the version
		}
		mem := vfs.NewMem()
		create(t, mem, 3)
		flip(t, mem, manifestPath(1), at)
		s := salvaged(t, mem, [16]byte{}, 30, 1)
		if s.Name != manifest.Name(1) || s.State.DBID != testDBID {
			t.Fatalf("byte %d: %q of database %x", at, s.Name, s.State.DBID)
		}
		salvaged(t, mem, [16]byte{9}, 30, 1)
		if err := mem.Remove(currentPath); err != nil {
			t.Fatal(err)
		}
		salvaged(t, mem, testDBID, 30, 2)
		salvaged(t, mem, [16]byte{9}, 0, 2)
		salvaged(t, mem, [16]byte{}, 0, 2)
	}
}

// Of a manifest whose middle is damaged the state before is taken.
func TestSalvageOfADamagedRecord(t *testing.T) {
	mem := vfs.NewMem()
	create(t, mem, 2)
	two := len(read(t, mem, manifestPath(1))) - sealBytes
	mem = vfs.NewMem()
	create(t, mem, 4)
	flip(t, mem, manifestPath(1), two+20)
	salvaged(t, mem, [16]byte{}, 20, 1)
}

// Of several manifests the one with the newest state is taken, whichever CURRENT names.
func TestSalvageTakesTheNewestState(t *testing.T) {
	mem := vfs.NewMem()
	create(t, mem, 3)
	second := vfs.NewMem()
	l, err := makeAndCreate(second, dir, initState())
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, l, flush(1))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, mem, manifestPath(2), read(t, second, manifestPath(1)))
	write(t, mem, manifestPath(3), []byte("no manifest"))
	if err := mem.Remove(currentPath); err != nil {
		t.Fatal(err)
	}
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

// Files of a later version are an error: this program can judge none of them.
func TestSalvageOfALaterVersion(t *testing.T) {
	mem := vfs.NewMem()
	create(t, mem, 3)
	for _, path := range []string{currentPath, manifestPath(1)} {
		b := read(t, mem, path)
		b[8]++
		write(t, mem, path, b)
	}
	if _, err := manifest.Salvage(mem, dir, [16]byte{}); !errors.Is(err, corrupt.ErrVersion) {
		t.Errorf("got %v", err)
	}
}

// A failure of each single operation of Salvage, alone or with all after it, is an error, damage,
// or makes no difference.
func TestSalvageStoppedAtEveryOperation(t *testing.T) {
	for _, lasting := range []bool{false, true} {
		for at := int64(1); ; at++ {
			mem := vfs.NewMem()
			create(t, mem, 3)
			flip(t, mem, manifestPath(1), 20)
			p := &vfstest.FailPlan{At: at, Err: errIO, Lasting: lasting}
			s, err := manifest.Salvage(vfstest.NewFault(mem, p.Hook), dir, testDBID)
			op, failed := p.Failed()
			if n := mem.OpenFiles(); n != 0 {
				t.Fatalf("operation %d, %v: %d files are open", at, op.Kind, n)
			}
			seen := errors.Is(errors.Join(append(s.Damage, err)...), errIO)
			if !seen && (s.State == nil || s.State.LastSeq != 30) {
				t.Fatalf("operation %d, %v: got %+v, %v", at, op.Kind, s, err)
			}
			if !failed {
				break
			}
		}
	}
}
