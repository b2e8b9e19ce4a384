//go:build unix

package compare

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var page = flag.String("page", "", "measure all programs, and write the table into this file")

// TestTable makes the table of docs/tables.md. All programs run in turns, in many short slices, and
// the best slice of each counts: reads by the time of processors, writes by the clock.
func TestTable(t *testing.T) {
	if *page == "" {
		t.Skip("make compare measures")
	}
	d, programs := draw(), map[string]program{}
	for _, name := range names() {
		programs[name] = open(t, d, name)
	}
	best := map[string]time.Duration{} // of a call
	for slice := range 20 {
		for _, q := range questions {
			for _, name := range names() {
				n, begin, busy := 0, time.Now(), cpuTime()
				for n == 0 || time.Since(begin) < 50*time.Millisecond {
					i := int64(slice*1000 + n)
					if err := q.ask(t.Context(), programs[name], i); err != nil {
						t.Fatal(name, err)
					}
					n++
				}
				took := cpuTime() - busy
				if q.writes {
					took = time.Since(begin)
				}
				took /= time.Duration(n)
				key := name + q.name
				if best[key] == 0 || took < best[key] {
					best[key] = took
				}
			}
		}
	}
	var b strings.Builder
	b.WriteString("| library | lines | mistakes seen |")
	for _, q := range questions {
		b.WriteString(" " + q.name + " |")
	}
	b.WriteString("\n|" + strings.Repeat("---|", 3+len(questions)) + "\n")
	for _, name := range names() {
		found, _ := mistakes(t, name)
		fmt.Fprintf(&b, "| %s | %d | %d of 5 |", name, lines(t, name), len(found))
		for _, q := range questions {
			rate := float64(time.Second) / float64(best[name+q.name])
			fmt.Fprintf(&b, " %s |", strconv.FormatFloat(rate, 'f', -1+digits(rate), 64))
		}
		b.WriteString("\n")
	}
	writeTable(t, b.String())
}

// digits returns 1 for numbers that are written whole, 2 for small ones.
func digits(f float64) int {
	if f < 100 {
		return 2
	}
	return 1
}

const (
	tableBegin = "<!-- measurements: make compare writes them -->\n"
	tableEnd   = "<!-- end of measurements -->"
)

func writeTable(t *testing.T, table string) {
	text, err := os.ReadFile(*page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), tableBegin)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !ok || !ended {
		t.Fatalf("%s has no place for the table", *page)
	}
	text = []byte(before + tableBegin + "\n" + table + "\n" + tableEnd + after)
	if err := os.WriteFile(*page, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// cpuTime returns the time that the process has spent on processors.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
