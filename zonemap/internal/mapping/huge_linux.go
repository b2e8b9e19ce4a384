//go:build linux

package mapping

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const hugePage = 2 << 20

// AdviseHuge asks for large pages for a buffer that is about to be filled and read at
// random. It is a hint: failing does no harm.
func AdviseHuge(b []byte) {
	if len(b) < 2*hugePage {
		return
	}
	addr := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	from := int((hugePage - addr%hugePage) % hugePage)
	n := (len(b) - from) / hugePage * hugePage
	if n > 0 {
		_ = unix.Madvise(b[from:from+n], unix.MADV_HUGEPAGE)
	}
}
