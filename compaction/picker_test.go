package compaction_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/kstonedb/kstone/compaction"
	"github.com/kstonedb/kstone/internal/base"
	"github.com/kstonedb/kstone/internal/testutil"
)

var ok = testutil.OK

// TestPick runs the stories in testdata/picker. Each line of the input is a run,
// newest first:
//
//	100KB entries=1000 tombstones=10 ranges=1 ttl=5(100-200) seq=77
//
// Entries default to one per 100 bytes. Arguments of pick: now, snapshot (default:
// above everything), idle, resting, and options by name.
func TestPick(t *testing.T) {
	datadriven.Walk(t, "testdata/picker", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			runs := parseRuns(t, d.Input)
			var p compaction.Plan
			var ok bool
			switch d.Cmd {
			case "pick":
				o, now, snapshot := parsePickArgs(t, d)
				p, ok = compaction.Pick(runs, o, now, snapshot)
			case "full":
				p, ok = compaction.PickFull(runs)
			default:
				t.Fatalf("unknown command %s", d.Cmd)
			}
			if !ok {
				return "nothing\n"
			}
			return renderPlan(runs, p)
		})
	})
}

func renderPlan(runs []compaction.RunInfo, p compaction.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, score %.2f, %d KB", p.Reason, p.Score, p.Bytes>>10)
	if p.Bottom {
		b.WriteString(", to the bottom")
	}
	b.WriteByte('\n')
	for i, r := range runs {
		mark := "      "
		if i >= p.Lo && i < p.Hi {
			mark = "merge "
		}
		fmt.Fprintf(&b, "  %s%d KB\n", mark, r.Bytes>>10)
	}
	return b.String()
}

func parsePickArgs(t *testing.T, d *datadriven.TestData,
) (o compaction.Options, now int64, snapshot base.SeqNum) {
	t.Helper()
	snapshot = base.MaxSeqNum
	for _, a := range d.CmdArgs {
		n := 0
		if len(a.Vals) > 0 {
			n = int(parseNumber(t, a.Vals[0]))
		}
		switch a.Key {
		case "now":
			now = int64(n)
		case "snapshot":
			snapshot = base.SeqNum(n)
		case "idle":
			o = o.Idle()
		case "resting":
			o = o.Resting()
		case "trigger":
			o.Trigger = n
		case "max-runs":
			o.MaxRuns = n
		case "garbage":
			o.GarbagePercent = n
		default:
			t.Fatalf("unknown argument %s", a.Key)
		}
	}
	return o, now, snapshot
}

func parseRuns(t *testing.T, input string) (runs []compaction.RunInfo) {
	t.Helper()
	for line := range strings.Lines(input) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		size := words[0]
		unit := uint64(1 << 10)
		if strings.HasSuffix(size, "MB") {
			unit = 1 << 20
		}
		r := compaction.RunInfo{ID: uint64(100 - len(runs))}
		r.Bytes = parseNumber(t, size[:len(size)-2]) * unit
		r.Entries = r.Bytes / 100
		for _, w := range words[1:] {
			key, val, _ := strings.Cut(w, "=")
			if key == "ttl" {
				_, err := fmt.Sscanf(val, "%d(%d-%d)", &r.TTLEntries, &r.MinExpiry, &r.MaxExpiry)
				ok(t, err)
				continue
			}
			n := parseNumber(t, val)
			switch key {
			case "entries":
				r.Entries = n
			case "tombstones":
				r.Tombstones = n
			case "ranges":
				r.RangeTombstones = n
			case "seq":
				r.MaxSeq = base.SeqNum(n)
			default:
				t.Fatalf("unknown word %s", w)
			}
		}
		runs = append(runs, r)
	}
	return runs
}

func parseNumber(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	ok(t, err)
	return n
}

func TestInfo(t *testing.T) {
	got := compaction.Info(7, []*base.FileMeta{
		{SizeBytes: 10, Entries: 3, Tombstones: 1, MaxSeq: 9},
		{
			SizeBytes: 20, Entries: 4, RangeTombstones: 2, TTLEntries: 2, MinExpiry: 50,
			MaxExpiry: 60, MaxSeq: 8,
		},
		{SizeBytes: 30, Entries: 5, TTLEntries: 1, MinExpiry: -4, MaxExpiry: 55, MaxSeq: 7},
	})
	want := compaction.RunInfo{
		ID: 7, Bytes: 60, Entries: 12, Tombstones: 1, RangeTombstones: 2, TTLEntries: 3,
		MinExpiry: -4, MaxExpiry: 60, MaxSeq: 9,
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, expiry := range []int64{-5, 5} { // a file without has no part in the bounds
		with := &base.FileMeta{TTLEntries: 1, MinExpiry: expiry, MaxExpiry: expiry}
		for _, files := range [][]*base.FileMeta{{with, {Entries: 1}}, {{Entries: 1}, with}} {
			r := compaction.Info(1, files)
			if r.MinExpiry != expiry || r.MaxExpiry != expiry {
				t.Errorf("expiry %d: [%d, %d]", expiry, r.MinExpiry, r.MaxExpiry)
			}
		}
		later := &base.FileMeta{TTLEntries: 1, MinExpiry: expiry + 1, MaxExpiry: expiry + 2}
		for _, files := range [][]*base.FileMeta{{with, later}, {later, with}} {
			r := compaction.Info(1, files)
			if r.MinExpiry != expiry || r.MaxExpiry != expiry+2 {
				t.Errorf("expiry from %d: [%d, %d]", expiry, r.MinExpiry, r.MaxExpiry)
			}
		}
	}
}
