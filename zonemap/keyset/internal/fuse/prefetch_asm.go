//go:build (amd64 || arm64) && !purego

package fuse

import "unsafe"

// Prefetch asks the processor to bring the n cache lines that addrs points at. It never
// faults, and addresses are not checked.
//
//go:noescape
func Prefetch(addrs *unsafe.Pointer, n int)

// PrefetchSpans is Prefetch for the first and the last of size bytes at each address: up to
// 64 bytes that may lie in two lines.
//
//go:noescape
func PrefetchSpans(addrs *unsafe.Pointer, n, size int)
