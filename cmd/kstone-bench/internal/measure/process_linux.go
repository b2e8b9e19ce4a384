package measure

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime returns the user and system time of the process, all threads together.
func CPUTime() time.Duration {
	var ru syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &ru) != nil {
		return 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

// ThreadTime returns the processor time of the calling thread.
func ThreadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

func writtenBytes() int64 { return procField("/proc/self/io", "write_bytes", 1) }
func peakBytes() int64    { return procField("/proc/self/status", "VmHWM", 1024) }

// WriteBack makes the kernel write what is dirty in the file system of dir, so that what
// is counted as written afterwards begins with clean pages: a page that is changed again
// before it was written does not count.
func WriteBack(dir string) {
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	_ = unix.Syncfs(int(f.Fd()))
	_ = f.Close() // was only read
}

// resetPeak makes the peak of the resident set start again from the present size.
func resetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// procField returns the number that follows name in a file of /proc, times unit.
func procField(file, name string, unit int64) (n int64) {
	_, _ = fmt.Sscan(Field(file, name), &n)
	return n * unit
}

// blocks returns what a file occupies; preallocated and not yet used blocks count, holes do not.
func blocks(info fs.FileInfo) int64 { return info.Sys().(*syscall.Stat_t).Blocks * 512 }
