//go:build linux

package powercut_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kstonedb/kstone/internal/testutil"
)

// cyclesEnv is the number of cycles of each test; without it they are skipped.
const cyclesEnv = "KSTONE_POWERCUT_CYCLES"

// cycles returns the number of cycles to run, or skips the test and says why.
func cycles(t *testing.T, programs ...string) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv(cyclesEnv))
	if err != nil || n < 1 {
		t.Skipf("%s is not set: make powercut does", cyclesEnv)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can mount file systems")
	}
	for _, p := range append(programs, "mount", "umount") {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed", p)
		}
	}
	return n
}

// fileSystem is a kind of file system with how to make it.
type fileSystem struct {
	name string
	mkfs []string
}

var fileSystems = []fileSystem{
	{"ext4", []string{"mkfs.ext4", "-q", "-F", "-E", "nodiscard"}},
	{"xfs", []string{"mkfs.xfs", "-q", "-f", "-K"}},
}

// disk is a mounted file system.
type disk struct {
	device string // an image or a block device
	dir    string // where it is mounted
	loop   bool
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// scratch returns a directory in memory if there is one: the image is the disk, and what
// is under it makes no difference but time.
func scratch(t *testing.T) string {
	t.Helper()
	if dir, err := os.MkdirTemp("/dev/shm", "kstone"); err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		return dir
	}
	return t.TempDir()
}

// newImage makes an image file with a file system and mounts it.
func newImage(t *testing.T, fsys fileSystem, sizeBytes int64) *disk {
	t.Helper()
	d := &disk{device: filepath.Join(scratch(t), "disk"), dir: t.TempDir(), loop: true}
	f, err := os.Create(d.device)
	if err == nil {
		err = f.Truncate(sizeBytes)
		f.Close()
	}
	testutil.OK(t, err)
	d.format(t, fsys)
	return d
}

// format makes the file system again and mounts it. It is unmounted with the test.
func (d *disk) format(t *testing.T, fsys fileSystem) {
	t.Helper()
	run(t, fsys.mkfs[0], append(fsys.mkfs[1:], d.device)...)
	d.mount(t)
	t.Cleanup(func() {
		// Unmounted already, if the test went well.
		_ = exec.Command("umount", d.dir).Run()
	})
}

func (d *disk) mount(t *testing.T) {
	t.Helper()
	args := []string{d.device, d.dir}
	if d.loop {
		args = append([]string{"-o", "loop"}, args...)
	}
	if out, err := exec.Command("mount", args...).CombinedOutput(); err != nil {
		if strings.Contains(string(out), "loop device") {
			t.Skipf("no loop devices here: %s", out)
		}
		t.Fatalf("mount: %v\n%s", err, out)
	}
}

func (d *disk) unmount(t *testing.T) {
	t.Helper()
	run(t, "umount", d.dir)
}

// On Linux: the request that shuts a file system down, and the way that does not write its
// log out first. The same numbers for ext4 (EXT4_IOC_SHUTDOWN) and XFS (XFS_IOC_GOINGDOWN).
const (
	shutdownRequest = 0x8004587d
	withoutLogFlush = 2
)

// cut stops the file system as a power cut would: nothing reaches the device any more.
func (d *disk) cut() error {
	f, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), shutdownRequest, withoutLogFlush); err != nil {
		return fmt.Errorf("shutdown: %w", err)
	}
	return nil
}

// fsck repairs an ext4 file system, as a system does when it starts.
func fsck(device string) { _ = exec.Command("fsck.ext4", "-p", "-f", device).Run() }

// freeBytes returns the space that a program can use in dir.
func freeBytes(t *testing.T, dir string) int64 {
	t.Helper()
	var st unix.Statfs_t
	testutil.OK(t, unix.Statfs(dir, &st))
	return int64(st.Bavail) * int64(st.Bsize)
}

// allocate makes a file of n bytes with blocks of its own.
func allocate(t *testing.T, name string, n int64) {
	t.Helper()
	f, err := os.Create(name)
	if err == nil {
		err = unix.Fallocate(int(f.Fd()), 0, 0, n)
		f.Close()
	}
	testutil.OK(t, err)
}
