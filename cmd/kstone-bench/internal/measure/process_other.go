//go:build !linux

package measure

import (
	"io/fs"
	"time"
)

// CPUTime is not measured on this system: 0.
func CPUTime() time.Duration { return 0 }

// ThreadTime is wall time on this system.
func ThreadTime() time.Duration { return Clock() }

func writtenBytes() int64 { return 0 }
func peakBytes() int64    { return 0 }
func resetPeak()          {}

// WriteBack does nothing on this system, where written bytes are not counted.
func WriteBack(string) {}

func blocks(info fs.FileInfo) int64 { return info.Size() }
