// Package mapping reaches the operating system for package keyset: it maps files for
// reading, replaces files as a whole, and asks for large pages. Databases use
// internal/vfs instead.
package mapping
