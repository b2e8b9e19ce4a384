package mapping

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const hugePage = 2 << 20

// AdviseHuge asks for large pages for a buffer that is about to be filled and read at
// random, and for what shares its first and last page. It is a hint: failing does no
// harm. Of buffers too small to be worth it nothing is asked.
func AdviseHuge(b []byte) {
	if len(b) < hugePage/4 {
		return
	}
	from := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	to := (from + uintptr(len(b)) + hugePage - 1) &^ (hugePage - 1)
	from &^= hugePage - 1
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_HUGEPAGE)
}
