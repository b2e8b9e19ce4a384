// Package postgrestest starts PostgreSQL servers of the machine, for tests: each in a folder of its
// own, on a port of the loopback, with nothing installed.
package postgrestest
