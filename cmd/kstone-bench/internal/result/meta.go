package result

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/measure"
)

// Meta says what was measured, where and how: the first line of raw output.
type Meta struct {
	Kind     string    `json:"kind"` // of measurement: the command, "chains" without one
	Time     time.Time `json:"time"`
	Command  []string  `json:"command"`
	CPU      string    `json:"cpu"`
	Cores    int       `json:"cores"`
	MemoryKB int64     `json:"memory_kb"`
	Kernel   string    `json:"kernel"`
	Go       string    `json:"go"`
	Commit   string    `json:"commit,omitempty"`
	Load     string    `json:"load,omitempty"` // averages at the start
	// Versions and Notes are by engine; what Notes say depends on the kind.
	Versions map[string]string `json:"versions"`
	Notes    map[string]string `json:"notes"`

	Rounds      int     `json:"rounds"`
	Records     uint64  `json:"records"`
	ValueBytes  int     `json:"value_bytes,omitempty"`
	Seconds     float64 `json:"seconds,omitempty"` // of what has no fixed length
	WriteBuffer int64   `json:"write_buffer,omitempty"`
	Cache       int64   `json:"cache,omitempty"`

	Ends bool `json:"ends,omitempty"` // the last line says how many records there are
}

// NewMeta describes this machine.
func NewMeta(kind string) Meta {
	m := Meta{
		Kind: kind, Time: time.Now().UTC().Truncate(time.Second), Command: os.Args[1:],
		Cores: runtime.NumCPU(), Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
		CPU: measure.Field("/proc/cpuinfo", "model name"), Commit: commit(),
		Kernel: firstLine("/proc/sys/kernel/osrelease"), Load: firstLine("/proc/loadavg"),
		Versions: map[string]string{}, Notes: map[string]string{},
	}
	_, _ = fmt.Sscan(measure.Field("/proc/meminfo", "MemTotal"), &m.MemoryKB)
	return m
}

// Describe notes the version of an engine, that of its Go module, and what there is to say.
func (m *Meta) Describe(engine, module, note string) {
	m.Notes[engine] = note
	if engine == Subject {
		m.Versions[engine] = m.Commit
		return
	}
	m.Versions[engine] = ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == module {
				m.Versions[engine] = d.Version
			}
		}
	}
}

// conditions have to be equal in runs that are compared.
type conditions struct {
	Kind, CPU, Kernel, Go string
	Cores                 int
	MemoryGiB             int64
	WriteBuffer, Cache    int64
}

func (m *Meta) conditions() conditions {
	return conditions{m.Kind, m.CPU, m.Kernel, m.Go, m.Cores, m.MemoryKB >> 20, m.WriteBuffer,
		m.Cache}
}

// Size is the number of records of a run and the bytes of a value.
func (m *Meta) Size() Size { return Size{m.Records, m.ValueBytes} }

// Size is what a run works on. Single chains multiply or divide it.
type Size struct {
	Records    uint64
	ValueBytes int
}

// String writes "2 M × 100 B".
func (s Size) String() string {
	text := Count(s.Records)
	if s.ValueBytes > 0 {
		text += fmt.Sprintf(" × %d B", s.ValueBytes)
	}
	return text
}

// Count writes a number of records, "2 M" or "200 k".
func Count(n uint64) string {
	switch {
	case n >= 1_000_000:
		return fmt.Sprintf("%g M", float64(n)/1e6)
	case n >= 1000:
		return fmt.Sprintf("%g k", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}

// commit asks git for the commit of the working directory, marked if it was changed.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=10").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func firstLine(file string) string {
	data, _ := os.ReadFile(file)
	line, _, _ := strings.Cut(string(data), "\n")
	return line
}
