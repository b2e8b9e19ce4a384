//go:build !cgo || !unix

package main

import (
	"errors"
	"time"
)

// referee is not there: SQLite is in C, and processor time is that of Unix.
type referee struct{}

func newReferee() (*referee, error) {
	return nil, errors.New("-sqlite needs cgo and Unix")
}

func (*referee) close()      {}
func (*referee) exec(string) {}

func (*referee) values(string, string) ([]string, error) {
	return nil, errors.ErrUnsupported
}

func processorTime() time.Duration { return 0 }
