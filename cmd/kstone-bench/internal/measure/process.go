// Package measure takes times in turns, and what the process has used of processors, memory
// and disk.
package measure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Usage is what the process has used between Start and Stop.
type Usage struct {
	Wall time.Duration
	// CPU is user and system time of all threads: background work is included.
	CPU time.Duration
	// WrittenBytes is what the process has made dirty in the page cache, by whatever
	// means (write, mapping): what has to reach the disk. Files deleted before they
	// reached it are counted.
	WrittenBytes int64
	// PeakRSSBytes is the largest resident set, mapped files included.
	PeakRSSBytes int64
}

// Meter measures a stretch of work.
type Meter struct {
	wrote int64
	cpu   time.Duration
	start time.Time
}

// Start begins a measurement.
func Start() Meter {
	resetPeak()
	return Meter{wrote: writtenBytes(), cpu: CPUTime(), start: time.Now()}
}

// Elapsed returns what was used since Start.
func (m Meter) Elapsed() Usage {
	return Usage{time.Since(m.start), CPUTime() - m.cpu, writtenBytes() - m.wrote, peakBytes()}
}

const (
	idleWindow  = 100 * time.Millisecond
	idleShare   = 0.04 // of one processor
	idleWindows = 3
)

// settleLimit bounds the wait for background work.
var settleLimit = 15 * time.Minute

// Settle flushes, and returns when the process has used next to no processor time for three
// windows of 100 ms: so the benchmarks know, in the same way for every engine, that background
// work is done. It fails if that takes too long, since figures would leave out the rest.
func Settle(flush func() error) error {
	if err := flush(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	deadline := time.Now().Add(settleLimit)
	for quiet := 0; quiet < idleWindows; {
		if time.Now().After(deadline) {
			return fmt.Errorf("still busy after %v", settleLimit)
		}
		before, start := CPUTime(), time.Now()
		time.Sleep(idleWindow)
		used := float64(CPUTime()-before) / float64(time.Since(start))
		if used < idleShare {
			quiet++
		} else {
			quiet = 0
		}
	}
	return nil
}

// DiskBytes returns what the files under dir occupy.
func DiskBytes(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			total += blocks(info)
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil // deleted in the meantime
		}
		return err
	})
	return total, err
}

// Field returns what follows "name :" in a file of /proc.
func Field(file, name string) string {
	data, _ := os.ReadFile(file)
	for line := range strings.Lines(string(data)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
