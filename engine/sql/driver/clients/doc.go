// Package clients runs clients of database/sql over kstone. It is a module of its own, so that
// programs with kstone do not get them.
package clients
