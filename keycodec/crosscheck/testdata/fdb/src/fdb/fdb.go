// Package fdb stands for the client of FoundationDB, which needs its C library: it declares
// what the tuple layer names and does not use for packing and unpacking.
package fdb

import (
	"errors"
	"fmt"
)

// Key is a key.
type Key []byte

// KeyConvertible is what can be a key.
type KeyConvertible interface{ FDBKey() Key }

// FDBKey implements KeyConvertible.
func (k Key) FDBKey() Key { return k }

// Selectable is what a range begins or ends with.
type Selectable any

// FirstGreaterOrEqual is not used.
func FirstGreaterOrEqual(key KeyConvertible) Selectable { return key }

// Printable renders bytes.
func Printable(b []byte) string { return fmt.Sprintf("%q", b) }

// GetAPIVersion says that no version was chosen.
func GetAPIVersion() (int, error) { return 0, errors.New("no API version") }
