package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/internal/testutil"
)

// powerCutProgramEnv names a file for TestPowerCutPrograms.
const powerCutProgramEnv = "KSTONE_POWERCUT_PROGRAM"

// A program and its cuts as text, a line for each step. What comes after a cut is done by
// a process that finds what the cut has left.
//
//	open durability=process flush-records=3 max-runs=2 padding=0
//	commit 17 process: put p3/s04 120; delete p1/s02; delete p2/s0*
//	beside flush
//	commit 18 transaction: put p3/s05 0
//	cut before sync-dir db, nth=2 keep=0.5 seed=123
//	open durability=sync flush-records=0 max-runs=0 padding=0
//
// A star stands for all sort keys that begin so, > for all that come after, ~ for the
// longest key of that byte (see cutKey). The number after a put is that of bytes in its
// value. Nth counts operations with that name; nth=0 cuts at each of them. A kill is
// written like a cut.
const (
	cutOpenText  = "open durability=%s flush-records=%d max-runs=%d padding=%d"
	cutPointText = "nth=%d keep=%g seed=%d"
)

// formatCuts returns the text of a path.
func formatCuts(path []cutLink) string {
	var b strings.Builder
	for _, l := range path {
		o := &l.stage.opts
		level := map[engine.Durability]string{engine.Sync: "sync"}[o.Durability]
		if level == "" {
			level = "process"
		}
		fmt.Fprintf(&b, cutOpenText+"\n", level, o.FlushRecords, o.MaxRuns, l.stage.padding)
		for _, s := range l.stage.steps {
			b.WriteString(s.String() + "\n")
		}
		if at := l.at; at != nil {
			word := "cut"
			if at.kill {
				word = "kill"
			}
			fmt.Fprintf(&b, "%s %s, "+cutPointText+"\n", word, at.op, at.nth, at.keep, at.seed)
		}
	}
	return b.String()
}

// String returns the line of a step.
func (s cutStep) String() string {
	text := cutWords[s.kind]
	if s.beside {
		text = "beside " + text
	}
	if s.kind != 'c' {
		return text
	}
	level := "process"
	switch {
	case s.tx:
		level = "transaction"
	case s.sync:
		level = "sync"
	}
	var ops []string
	for _, o := range s.ops {
		switch k := o.pk + "/" + o.sk; o.kind {
		case 'p':
			ops = append(ops, fmt.Sprintf("put %s %d", k, o.bytes))
		case 'd':
			ops = append(ops, "delete "+k)
		case 'r':
			ops = append(ops, "delete "+k+"*")
		case 'g':
			ops = append(ops, "delete "+k+">")
		case 'x':
			ops = append(ops, "delete "+k+">>")
		}
	}
	return fmt.Sprintf("%s %d %s: %s", text, s.id, level, strings.Join(ops, "; "))
}

// parseCuts is the inverse of formatCuts. Empty lines and those that begin with # are
// left out. A path that ends with a cut goes on with a process that does nothing.
func parseCuts(text string) (path []cutLink, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		word, rest, _ := strings.Cut(line, " ")
		var last *cutLink
		if len(path) > 0 {
			last = &path[len(path)-1]
		}
		switch {
		case line == "" || line[0] == '#':
		case word == "open":
			var l cutLink
			l.stage, err = parseOpen(line)
			path = append(path, l)
		case last == nil || last.at != nil:
			err = fmt.Errorf("no open before it")
		case word == "cut" || word == "kill":
			last.at, err = parsePoint(rest)
			last.at.kill = word == "kill"
		default:
			var s cutStep
			s, err = parseStep(line)
			last.stage.steps = append(last.stage.steps, s)
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
	}
	if len(path) > 0 && path[len(path)-1].at != nil {
		path = append(path, cutLink{stage: cutStage{opts: baseCutOptions}})
	}
	return path, nil
}

func parseOpen(line string) (cutStage, error) {
	s, level := cutStage{opts: baseCutOptions}, ""
	_, err := fmt.Sscanf(line, cutOpenText, &level, &s.opts.FlushRecords, &s.opts.MaxRuns,
		&s.padding)
	s.opts.Durability = map[string]engine.Durability{
		"sync": engine.Sync, "process": engine.Process,
	}[level]
	if err == nil && s.opts.Durability == engine.DefaultDurability {
		err = fmt.Errorf("durability %q is unknown", level)
	}
	return s, err
}

func parsePoint(text string) (*cutPoint, error) {
	op, rest, _ := strings.Cut(text, ", ")
	at := &cutPoint{op: op}
	_, err := fmt.Sscanf(rest, cutPointText, &at.nth, &at.keep, &at.seed)
	return at, err
}

func parseStep(line string) (s cutStep, err error) {
	line, s.beside = strings.CutPrefix(line, "beside ")
	for kind, word := range cutWords {
		if first, _, _ := strings.Cut(line, " "); first == word {
			s.kind = kind
		}
	}
	if s.kind == 0 {
		return s, fmt.Errorf("unknown step")
	}
	if s.kind != 'c' {
		return s, nil
	}
	head, ops, _ := strings.Cut(line, ": ")
	level := ""
	if _, err := fmt.Sscanf(head, "commit %d %s", &s.id, &level); err != nil {
		return s, err
	}
	s.tx, s.sync = level == "transaction", level == "sync"
	for text := range strings.SplitSeq(ops, "; ") {
		o, err := parseCutOp(strings.Fields(text))
		if err != nil {
			return s, err
		}
		s.ops = append(s.ops, o)
	}
	return s, nil
}

func parseCutOp(words []string) (o cutOp, err error) {
	if len(words) < 2 {
		return o, fmt.Errorf("no key")
	}
	o.pk, o.sk, _ = strings.Cut(words[1], "/")
	switch {
	case words[0] == "put" && len(words) == 3:
		o.kind = 'p'
		o.bytes, err = strconv.Atoi(words[2])
	case words[0] != "delete" || len(words) != 2:
		err = fmt.Errorf("unknown operation %q", words)
	case strings.HasSuffix(o.sk, "*"):
		o.kind, o.sk = 'r', strings.TrimSuffix(o.sk, "*")
	case strings.HasSuffix(o.sk, ">>"):
		o.kind, o.sk = 'x', strings.TrimSuffix(o.sk, ">>")
	case strings.HasSuffix(o.sk, ">"):
		o.kind, o.sk = 'g', strings.TrimSuffix(o.sk, ">")
	default:
		o.kind = 'd'
	}
	return o, err
}

// The text of a program is all of it.
func TestPowerCutTextIsTheProgram(t *testing.T) {
	rnd := testutil.Rand(t)
	at := []*cutPoint{
		{op: "before sync-dir db", nth: 2, keep: 0.1, seed: 1 << 63},
		{op: "after close", kill: true},
		nil,
	}
	path := []cutLink{
		{stage: drawProgram(rnd), at: at[0]}, {stage: drawRecovery(rnd, 1), at: at[1]},
		{stage: drawRecovery(rnd, 2)},
	}
	text := formatCuts(path)
	again, err := parseCuts("# a comment\n\n" + text)
	ok(t, err)
	if got := formatCuts(again); got != text {
		t.Errorf("%s\nbecame\n%s", text, got)
	}
	for i := range path {
		if !reflect.DeepEqual(again[i], path[i]) {
			t.Errorf("stage %d is %+v, want %+v", i, again[i], path[i])
		}
	}
	for _, bad := range []string{
		"flush", "open", "open durability=x flush-records=0 max-runs=0 padding=0",
		text + "x", text + "commit", text + "commit 1 sync: put p/s", text + "cut before",
		text + "commit 1 sync: take p/s", text + "cut a, nth=1 keep=0 seed=0\nflush",
	} {
		if _, err := parseCuts(bad); err == nil {
			t.Errorf("%.200q is accepted", bad)
		}
	}
}

// Goal: what has failed once does not fail again. Method: the reduced programs in
// testdata/powercut are run with their cuts, and with cuts before all operations of the
// same name. KSTONE_POWERCUT_PROGRAM names a file to be run a hundred times instead.
func TestPowerCutPrograms(t *testing.T) {
	files, err := filepath.Glob("testdata/powercut/*.txt")
	ok(t, err)
	runs := 2
	if s := os.Getenv(powerCutProgramEnv); s != "" {
		files, runs = []string{s}, 100
	}
	if len(files) == 0 {
		t.Error("there are no programs")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			ok(t, err)
			path, err := parseCuts(string(text))
			ok(t, err)
			trial := cutTrial{tally: newCutTally()}
			loose := (&cutReducer{best: &cutFailure{path: path}}).with(0, func(*cutLink) {})
			for i := range runs {
				for _, p := range [][]cutLink{path, loose} {
					if f := trial.repeat(p, uint64(i)); f != nil {
						t.Fatalf("run %d: %s", i, f.text)
					}
				}
			}
			cuts := func(l cutLink) bool { return l.at != nil }
			if slices.ContainsFunc(path, cuts) && trial.tally.cuts[0] == 0 {
				t.Error("there is no operation any more before which the power is to be cut")
			}
			t.Log(trial.tally)
		})
	}
}
