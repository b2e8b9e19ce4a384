// Package measure takes times in turns, and what the process has used of processors, memory
// and disk.
package measure

import (
	"os"
	"strings"
	"sync"
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
	// PeakRSSBytes is the largest resident set, mapped files included;
	// PeakAnonBytes the largest part of it that is not file-backed (sampled).
	PeakRSSBytes, PeakAnonBytes int64
}

// Meter measures a stretch of work.
type Meter struct {
	start time.Time
	cpu   time.Duration
	wrote int64
	stop  chan struct{}
	done  sync.WaitGroup
	anon  int64
}

const anonSample = 50 * time.Millisecond

// Start begins a measurement.
func Start() *Meter {
	m := &Meter{stop: make(chan struct{})}
	resetPeak()
	m.anon = anonBytes()
	m.done.Go(m.watch)
	m.wrote, m.cpu, m.start = writtenBytes(), CPUTime(), time.Now()
	return m
}

func (m *Meter) watch() {
	tick := time.NewTicker(anonSample)
	defer tick.Stop()
	for {
		select {
		case <-m.stop:
			return
		case <-tick.C:
			m.anon = max(m.anon, anonBytes())
		}
	}
}

// Elapsed returns what was used since Start, without peaks.
func (m *Meter) Elapsed() Usage {
	u := Usage{Wall: time.Since(m.start), CPU: CPUTime() - m.cpu}
	u.WrittenBytes = writtenBytes() - m.wrote
	return u
}

// Stop ends the measurement. It must be called once.
func (m *Meter) Stop() Usage {
	u := m.Elapsed()
	close(m.stop)
	m.done.Wait()
	u.PeakRSSBytes, u.PeakAnonBytes = peakBytes(), max(m.anon, anonBytes())
	return u
}

const (
	idleWindow  = 100 * time.Millisecond
	idleShare   = 0.04 // of one processor
	idleWindows = 3
)

// AwaitIdle returns when the process has used next to no processor time for three
// windows of 100 ms, or after limit; ok reports which. That is how the benchmarks know,
// in the same way for every engine, that background work is done.
func AwaitIdle(limit time.Duration) (ok bool) {
	deadline := time.Now().Add(limit)
	for quiet := 0; quiet < idleWindows; {
		if time.Now().After(deadline) {
			return false
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
	return true
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
