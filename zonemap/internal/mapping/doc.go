// Package mapping reaches the file system for package zonemap: it maps files for
// reading, and replaces files as a whole. Databases use internal/vfs instead.
package mapping
