//go:build (!amd64 && !arm64) || purego

package fuse

import "unsafe"

// Prefetch does nothing here: the lines come when they are read, several at a time
// where the reads do not depend on each other.
func Prefetch(*unsafe.Pointer, int) {}

// PrefetchSpans does nothing here.
func PrefetchSpans(*unsafe.Pointer, int, int) {}
