//go:build linux

package powercut_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kstonedb/kstone/internal/testutil"
)

// plainEnv makes this program write the file named in it, see plainWriter.
const plainEnv = "KSTONE_PLAIN_WRITER"

const (
	plainBytes = 4 << 20
	plainSlot  = 256
)

// plainWriter is the simplest writer that keeps a promise: numbers into a mapped file
// whose blocks are reserved, fdatasync after each, and only then it is acknowledged. It
// ends at the first error. Nothing of kstone is in it.
func plainWriter(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := unix.Fallocate(int(f.Fd()), 0, 0, plainBytes); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err == nil {
		err = dir.Sync()
	}
	if err != nil {
		return err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, plainBytes, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED)
	if err != nil {
		return err
	}
	debug.SetPanicOnFault(true)
	go churn(filepath.Dir(path))
	for n := 1; n < plainBytes/plainSlot; n++ {
		binary.BigEndian.PutUint64(mem[n*plainSlot:], uint64(n))
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return err
		}
		if _, err := fmt.Println(n); err != nil {
			return err
		}
	}
	return nil
}

// churn makes and removes files beside, so that the file system's own log is busy.
func churn(dir string) {
	content := make([]byte, 64<<10)
	rng := rand.NewChaCha8([32]byte{})
	for n := 0; ; n++ {
		_, _ = rng.Read(content)
		name := filepath.Join(dir, "churn"+strconv.Itoa(n))
		f, err := os.Create(name)
		if err != nil {
			return
		}
		_, err = f.Write(content)
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			return
		}
		if n > 3 {
			_ = os.Remove(filepath.Join(dir, "churn"+strconv.Itoa(n-3)))
		}
	}
}

// What the file systems themselves lose when a device fails: how many numbers that
// fdatasync acknowledged to the plain writer are gone. It is the measure for what
// TestFailingSyncOnRealDevice finds, and fails only if ext4 loses anything.
func TestFailingSyncOfAPlainWriter(t *testing.T) {
	for _, fsys := range fileSystems {
		t.Run(fsys.name, func(t *testing.T) {
			n := cycles(t, fsys.mkfs[0])
			rng := testutil.Rand(t)
			d, limit := newZram(t, imageBytes)
			lost := 0
			for i := range n {
				limit("0")
				d.format(t, fsys)
				path := filepath.Join(d.dir, "numbers")
				acked := plainOnce(t, path, limit, rng)
				d.unmount(t)
				if fsys.name == "ext4" {
					fsck(d.device)
				}
				d.mount(t)
				if have := numbersIn(path); have < acked {
					lost++
					t.Logf("cycle %d: number %d was acknowledged, %d is the last", i+1, acked, have)
				}
				d.unmount(t)
			}
			t.Logf("%s: a plain writer has lost acknowledged numbers in %d of %d cycles",
				fsys.name, lost, n)
			if lost > 0 && fsys.name == "ext4" {
				t.Error("ext4 is believed to lose nothing here")
			}
		})
	}
}

// plainOnce runs the plain writer on a device that fails, and returns what it acknowledged.
func plainOnce(t *testing.T, path string, limit func(string), rng *rand.Rand) (acked int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), plainEnv+"="+path)
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	testutil.OK(t, err)
	fail := time.AfterFunc(time.Duration(20+rng.IntN(100))*time.Millisecond, func() {
		limit("1")
	})
	defer fail.Stop()
	stop := time.AfterFunc(500*time.Millisecond, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		n, err := strconv.Atoi(strings.TrimSpace(lines.Text()))
		if err != nil {
			break
		}
		acked = n
	}
	_ = cmd.Wait() // with an error, or killed
	limit("0")
	return acked
}

// numbersIn returns the last of the numbers 1, 2, … in the file.
func numbersIn(path string) (n int) {
	b, _ := os.ReadFile(path)
	for (n+2)*plainSlot <= len(b) &&
		binary.BigEndian.Uint64(b[(n+1)*plainSlot:]) == uint64(n+1) {
		n++
	}
	return n
}
