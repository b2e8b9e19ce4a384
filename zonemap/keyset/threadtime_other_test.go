//go:build !linux

package keyset_test

import "time"

var began = time.Now()

// threadTime is wall time where the system has no clock for threads.
func threadTime() time.Duration { return time.Since(began) }
