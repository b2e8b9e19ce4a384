// Package cache bounds what open SST files hold: Cache is one byte budget for the
// decoded blocks of all files, Files one limit for their file handles.
//
// A cached value is reached through a Slot that the file owns, so a hit is one
// atomic load and, at most, one store of a reference mark: no map, no lock. Only
// insertion and eviction take the cache's mutex.
package cache
