//go:build !linux

package measure

import (
	"io/fs"
	"path/filepath"
	"time"
)

// CPUTime is not measured on this system: 0.
func CPUTime() time.Duration { return 0 }

// ThreadTime is wall time on this system.
func ThreadTime() time.Duration { return Clock() }

func writtenBytes() int64 { return 0 }
func peakBytes() int64    { return 0 }
func anonBytes() int64    { return 0 }
func resetPeak()          {}

// WriteBack does nothing on this system, where written bytes are not counted.
func WriteBack(string) {}

// DiskBytes returns the sum of the lengths of the files under dir.
func DiskBytes(dir string) (int64, error) {
	var total int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}
