// Package fuse builds and probes 3-wise binary fuse filters: Graf and Lemire, "Binary
// Fuse Filters: Fast and Smaller Than Xor Filters", 2022. Positions and fingerprints
// are those of github.com/FastFilter/xorfilter, so either reads the other's tables.
//
// The builder is this module's own: docs/decisions/0018-own-fuse-builder.md.
package fuse
