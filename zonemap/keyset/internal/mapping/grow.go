package mapping

import "unsafe"

// Grow returns a slice of n elements with any content: the memory of b if it suffices,
// else new memory, of large pages where there are any. T has no pointers.
func Grow[T byte | uint16 | uint32 | uint64](b []T, n int) []T {
	if cap(b) >= n {
		return b[:n]
	}
	b = make([]T, n)
	var t T
	AdviseHuge(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(b))),
		n*int(unsafe.Sizeof(t))))
	return b
}
