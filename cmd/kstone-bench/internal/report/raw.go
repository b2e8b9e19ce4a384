// Package report keeps raw results and makes tables and charts of them.
package report

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
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
	Repeats  int               `json:"repeats"`
	Records  uint64            `json:"records"`
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
		return ""
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

// Read reads raw output. A file may be several outputs, one after the other; the Meta
// is that of the first.
func Read(in io.Reader) (Meta, []workload.Result, error) {
	var meta *Meta
	var results []workload.Result
	dec := json.NewDecoder(in)
	for {
		var line struct {
			Meta *Meta `json:"meta"`
			workload.Result
		}
		err := dec.Decode(&line)
		switch {
		case err == io.EOF:
			if meta == nil {
				meta = &Meta{}
			}
			return *meta, results, nil
		case err != nil:
			return Meta{}, nil, fmt.Errorf("raw output: %w", err)
		case line.Meta == nil:
			results = append(results, line.Result)
		case meta == nil:
			meta = line.Meta
		}
	}
}

func sortedKeys(m map[string]string) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Compare(rank(a), rank(b))
	})
}
