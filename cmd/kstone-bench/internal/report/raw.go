// Package report keeps raw results and makes tables and charts of them.
package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/store"
	"github.com/kstonedb/kstone/cmd/kstone-bench/internal/workload"
)

// Meta says where and with what results were measured: the first line of raw output.
type Meta struct {
	Time     time.Time         `json:"time"`
	Command  []string          `json:"command"`
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	MemoryKB int64             `json:"memory_kb"`
	Kernel   string            `json:"kernel"`
	Go       string            `json:"go"`
	Commit   string            `json:"commit,omitempty"`
	Load     string            `json:"load,omitempty"` // averages at the start
	Versions map[string]string `json:"versions"`
	Unsynced map[string]string `json:"unsynced"`

	Repeats     int     `json:"repeats"`
	Records     uint64  `json:"records"`
	ValueBytes  int     `json:"value_bytes,omitempty"`
	Seconds     float64 `json:"seconds,omitempty"` // of workloads without fixed length
	WriteBuffer int64   `json:"write_buffer,omitempty"`
	Cache       int64   `json:"cache,omitempty"`
}

// NewMeta describes this machine and these engines.
func NewMeta(engines []string) Meta {
	m := Meta{
		Time: time.Now().UTC().Truncate(time.Second), Command: os.Args[1:],
		Cores: runtime.NumCPU(), Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
		CPU: strings.TrimSpace(field("/proc/cpuinfo", "model name")), Commit: commit(),
		Kernel: firstLine("/proc/sys/kernel/osrelease"), Load: firstLine("/proc/loadavg"),
		Versions: map[string]string{}, Unsynced: map[string]string{},
	}
	_, _ = fmt.Sscan(field("/proc/meminfo", "MemTotal"), &m.MemoryKB)
	modules := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			modules[d.Path] = d.Version
		}
	}
	for _, name := range engines {
		e, err := store.Find(name)
		if err != nil {
			continue
		}
		m.Unsynced[name] = e.Unsynced
		if m.Versions[name] = modules[e.Module]; e.Version != nil {
			m.Versions[name] = e.Version()
		}
		if name == "kstone" {
			m.Versions[name] = m.Commit
		}
	}
	return m
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

// field returns what follows "name :" in a file of /proc.
func field(file, name string) string {
	data, _ := os.ReadFile(file)
	for line := range strings.Lines(string(data)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// Raw writes raw output: JSON, one line for the Meta, one for each result.
type Raw struct {
	w   *bufio.Writer
	enc *json.Encoder
}

// NewRaw starts raw output with m.
func NewRaw(w io.Writer, m Meta) (*Raw, error) {
	r := &Raw{w: bufio.NewWriter(w)}
	r.enc = json.NewEncoder(r.w)
	r.enc.SetEscapeHTML(false)
	if err := r.enc.Encode(struct {
		Meta Meta `json:"meta"`
	}{m}); err != nil {
		return nil, err
	}
	return r, r.w.Flush()
}

// Add writes one result through.
func (r *Raw) Add(res workload.Result) error {
	if err := r.enc.Encode(res); err != nil {
		return err
	}
	return r.w.Flush()
}

// Run is one measurement: the results that share a Meta.
type Run struct {
	Meta    Meta
	Results []workload.Result
	// Torn is set if the last line is not complete: the program was stopped.
	Torn bool
}

// Read reads one file of raw output, which may hold several runs, one after the other.
// A last line without its end is left out.
func Read(in io.Reader) ([]Run, error) {
	var runs []Run
	lines := bufio.NewReader(in)
	for n := 1; ; n++ {
		text, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return nil, err
		}
		var line struct {
			Meta *Meta `json:"meta"`
			workload.Result
		}
		if err == io.EOF {
			if len(bytes.TrimSpace(text)) > 0 && len(runs) > 0 {
				runs[len(runs)-1].Torn = true
			}
			return runs, nil
		}
		if bad := json.Unmarshal(text, &line); bad != nil {
			return nil, fmt.Errorf("raw output, line %d: %w", n, bad)
		}
		switch {
		case line.Meta != nil:
			runs = append(runs, Run{Meta: *line.Meta})
		case len(runs) == 0:
			return nil, fmt.Errorf("raw output, line %d: a result before the first meta line", n)
		default:
			last := &runs[len(runs)-1]
			last.Results = append(last.Results, line.Result)
		}
	}
}

// SameMachine returns an error unless all runs are from machines that look the same and
// have the same budgets, so that their figures may stand in one table.
func SameMachine(runs []Run) error {
	if len(runs) == 0 {
		return errors.New("no runs")
	}
	type conditions struct {
		CPU                string
		Cores              int
		MemoryGiB          int64
		WriteBuffer, Cache int64
	}
	of := func(m Meta) conditions {
		return conditions{m.CPU, m.Cores, m.MemoryKB >> 20, m.WriteBuffer, m.Cache}
	}
	first := of(runs[0].Meta)
	for _, r := range runs[1:] {
		if c := of(r.Meta); c != first {
			return fmt.Errorf("runs are from different machines or budgets: %+v and %+v", first, c)
		}
	}
	return nil
}
