package shell

import (
	"bufio"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"unicode/utf8"
)

// maxHistory is how many texts of the history are read back.
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

// History is the file with what was typed in earlier shells. The lines of a text after its first
// one begin with a tab.
type History struct{ name string }

// OpenHistory returns the history in the named file, which need not exist.
func OpenHistory(name string) *History { return &History{name} }

// Lines returns the last texts, oldest first. A history that cannot be read is empty:
// a shell without it is better than none.
func (h *History) Lines() []string {
	f, err := os.Open(h.name)
	if h.name == "" || err != nil {
		return nil
	}
	defer f.Close()
	var lines []string
	in := bufio.NewScanner(f)
	in.Buffer(nil, math.MaxInt) // statements may be long
	for in.Scan() {
		line := in.Text()
		more, goesOn := strings.CutPrefix(line, "\t")
		switch {
		case !utf8.ValidString(line) || line == "":
		case goesOn && len(lines) > 0:
			lines[len(lines)-1] += "\n" + more
		default:
			lines = append(lines, line)
		}
		if len(lines) > 2*maxHistory {
			lines = append(lines[:0], lines[maxHistory:]...)
		}
	}
	return lines[max(0, len(lines)-maxHistory):]
}

// Kept reports whether a history keeps a text: one that begins with a blank stays out of it.
func Kept(text string) bool {
	return strings.TrimSpace(text) != "" && text[0] != ' ' && text[0] != '\t' && text[0] != '\n'
}

// Add stores a text at once, so that neither a crash nor another shell loses it. The file is
// readable for its owner only. It reports whether the text was kept.
func (h *History) Add(text string) bool {
	if h.name == "" || !Kept(text) {
		return false
	}
	if err := os.MkdirAll(filepath.Dir(h.name), 0o700); err != nil {
		return false
	}
	f, err := os.OpenFile(h.name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	_, err = f.WriteString(strings.ReplaceAll(text, "\n", "\n\t") + "\n")
	return f.Close() == nil && err == nil
}
