// Package bulk has the commands that read or write many items or rows: import, dedup, export and
// dump.
package bulk
