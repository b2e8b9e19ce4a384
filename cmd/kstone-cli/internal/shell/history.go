package shell

import (
	"bufio"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unicode/utf8"
)

// maxHistory is how many lines of the history are read back.
const maxHistory = 1000

// HistoryFile returns where the history is kept, "" for nowhere. The environment
// variable KSTONE_HISTORY names another file; empty, it turns the history off.
func HistoryFile() string {
	if name, set := os.LookupEnv("KSTONE_HISTORY"); set {
		return name
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "kstone", "history")
	}
	switch runtime.GOOS {
	case "windows", "darwin":
		if dir, err := os.UserConfigDir(); err == nil {
			return filepath.Join(dir, "kstone", "history")
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "state", "kstone", "history")
	}
	return ""
}

// History is the file with the lines typed in earlier shells.
type History struct{ name string }

// OpenHistory returns the history in the named file, which need not exist.
func OpenHistory(name string) *History { return &History{name} }

// Lines returns the last lines, oldest first. A history that cannot be read is empty:
// a shell without it is better than none.
func (h *History) Lines() []string {
	f, err := os.Open(h.name)
	if h.name == "" || err != nil {
		return nil
	}
	defer f.Close()
	var lines []string
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		if line := in.Text(); utf8.ValidString(line) && line != "" {
			lines = append(lines, line)
		}
		if len(lines) > 2*maxHistory {
			lines = append(lines[:0], lines[maxHistory:]...)
		}
	}
	return lines[max(0, len(lines)-maxHistory):]
}

// Add stores a line at once, so that neither a crash nor another shell loses it. Lines
// that begin with a blank are not stored, nor are those of several lines. The file is
// readable for its owner only. It reports whether the line was kept.
func (h *History) Add(line string) bool {
	if h.name == "" || line == "" || strings.HasPrefix(line, " ") || strings.Contains(line, "\n") {
		return false
	}
	if err := os.MkdirAll(filepath.Dir(h.name), 0o700); err != nil {
		return false
	}
	f, err := os.OpenFile(h.name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	_, err = f.WriteString(line + "\n")
	return f.Close() == nil && err == nil
}
