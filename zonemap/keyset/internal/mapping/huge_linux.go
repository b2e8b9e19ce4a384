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
	end := from + uintptr(len(b))
	advise(from&^(hugePage-1), (end+hugePage-1)&^(hugePage-1), unix.MADV_HUGEPAGE)
	// The advice is for pages to come. Those that the buffer has already, because it was
	// another one before, are replaced, as far as they are its own.
	advise((from+hugePage-1)&^(hugePage-1), end&^(hugePage-1), unix.MADV_COLLAPSE)
}

func advise(from, end uintptr, advice uintptr) {
	if from < end {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, end-from, advice)
	}
}
