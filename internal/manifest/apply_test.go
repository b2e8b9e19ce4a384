package manifest_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/manifest"
)

var testDBID = [16]byte{0xdb, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// TestApply runs edit scripts. An edit's arguments are its counters; each line of
// its body is one stripe edit:
//
//	7 flushed=20 remove=2,1 add=4:11[a,c]@1-5,12[d,f]@2-6 add=5:...
func TestApply(t *testing.T) {
	datadriven.Walk(t, "testdata/apply", func(t *testing.T, path string) {
		s := &manifest.State{DBID: testDBID, NextFile: 1, NextRun: 1, LogStart: 1}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "edit" {
				t.Fatalf("unknown command %s", d.Cmd)
			}
			next, err := manifest.Apply(s, parseEdit(t, d))
			if err != nil {
				return "error: " + err.Error()
			}
			s = next
			return renderState(s)
		})
	})
}

func parseEdit(t *testing.T, d *datadriven.TestData) *manifest.Edit {
	t.Helper()
	e := &manifest.Edit{}
	for _, a := range d.CmdArgs {
		v := number(t, a.Vals[0])
		switch a.Key {
		case "next-file":
			e.NextFile = base.FileNum(v)
		case "next-run":
			e.NextRun = v
		case "log-start":
			e.LogStart = v
		case "log-seq":
			e.LogSeq = base.SeqNum(v)
		case "last-seq":
			e.LastSeq = base.SeqNum(v)
		default:
			t.Fatalf("unknown argument %s", a.Key)
		}
	}
	for line := range strings.Lines(d.Input) {
		if strings.TrimSpace(line) != "" {
			e.Stripes = append(e.Stripes, parseStripeEdit(t, strings.Fields(line)))
		}
	}
	return e
}

func parseStripeEdit(t *testing.T, words []string) manifest.StripeEdit {
	t.Helper()
	se := manifest.StripeEdit{Stripe: base.StripeID(number(t, words[0]))}
	for _, w := range words[1:] {
		key, val, _ := strings.Cut(w, "=")
		switch key {
		case "flushed":
			se.FlushedSeq = base.SeqNum(number(t, val))
		case "remove":
			for _, id := range strings.Split(val, ",") {
				se.Remove = append(se.Remove, number(t, id))
			}
		case "add":
			id, files, _ := strings.Cut(val, ":")
			r := &manifest.Run{ID: number(t, id)}
			for _, f := range strings.Split(strings.ReplaceAll(files, ",", " "), ";") {
				if f != "" {
					r.Files = append(r.Files, parseFile(t, se.Stripe, f))
				}
			}
			se.Add = append(se.Add, r)
		default:
			t.Fatalf("unknown word %s", w)
		}
	}
	return se
}

// parseFile parses "11[a c]@1-5".
func parseFile(t *testing.T, stripe base.StripeID, s string) *base.FileMeta {
	t.Helper()
	f := &base.FileMeta{Stripe: stripe, SizeBytes: 100, Entries: 10}
	var lo, hi string
	s = strings.NewReplacer("[", " ", "]@", " ", "-", " ").Replace(s)
	if _, err := fmt.Sscan(s, &f.Num, &lo, &hi, &f.MinSeq, &f.MaxSeq); err != nil {
		t.Fatalf("file %q: %v", s, err)
	}
	f.Smallest, f.Largest = []byte(lo), []byte(hi)
	return f
}

func number(t *testing.T, s string) uint64 {
	t.Helper()
	v, err := strconv.ParseUint(s, 10, 64)
	ok(t, err)
	return v
}

func renderState(s *manifest.State) string {
	var b strings.Builder
	fmt.Fprintf(&b, "next-file=%d next-run=%d log-start=%d last-seq=%d\n",
		s.NextFile, s.NextRun, s.LogStart, s.LastSeq)
	for i := range s.Stripes {
		st := &s.Stripes[i]
		if len(st.Runs) == 0 && st.FlushedSeq == 0 {
			continue
		}
		fmt.Fprintf(&b, "%d flushed=%d", i, st.FlushedSeq)
		for _, r := range st.Runs {
			fmt.Fprintf(&b, " %d:", r.ID)
			for j, f := range r.Files {
				if j > 0 {
					b.WriteByte(';')
				}
				fmt.Fprintf(&b, "%d[%s,%s]", f.Num, f.Smallest, f.Largest)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
