//go:build !linux

package mapping

// AdviseHuge asks for large pages for a buffer that is about to be filled and read at
// random. On this system it does nothing.
func AdviseHuge([]byte) {}
