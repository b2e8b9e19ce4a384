package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// engineNet has the tests that see most of the engine and of what is below it.
const engineNet = "./engine/internal/suite"

// nets are the packages whose tests run if those of the package itself notice nothing.
var nets = map[string][]string{
	"./internal/rangedel": {engineNet},
	"./internal/manifest": {engineNet},
	"./compaction":        {engineNet},
	"./wal":               {engineNet},
	"./stripe":            {engineNet},
	"./memtable":          {engineNet},
	"./sst":               {engineNet},
	"./keycodec":          {"./engine/plan"},
	"./engine":            {engineNet},
	"./engine/schema":     {"./engine/table", "./engine/sql"},
	"./engine/plan/spans": {"./engine/plan", "./engine/table", "./engine/sql"},
	"./engine/table":      {"./engine/table/typed", "./engine/sql"},

	"./engine/internal/commit":      {"./engine", engineNet},
	"./engine/internal/history":     {"./engine", engineNet},
	"./engine/internal/read":        {"./engine", engineNet},
	"./engine/internal/upkeep":      {"./engine", engineNet},
	"./engine/table/internal/rowio": {"./engine/table", "./engine/table/typed"},
}

const (
	// fastTest is how long a test may take to be among the first.
	fastTest = 100 * time.Millisecond
	// A run that takes longer than slowFactor times the run without a change, and
	// extraTime, hangs.
	slowFactor = 5
	extraTime  = 30 * time.Second
)

// lab tries mutants.
type lab struct {
	dir string

	mu    sync.Mutex
	bases map[string]func() (*baseline, error) // by package
}

func newLab() (*lab, error) {
	dir, err := os.MkdirTemp("", "kstone-mutants-")
	return &lab{dir: dir, bases: map[string]func() (*baseline, error){}}, err
}

func (l *lab) close() { _ = os.RemoveAll(l.dir) }

// try runs the tests of a mutant until one fails.
func (l *lab) try(ctx context.Context, m mutant) (v verdict, err error) {
	v = verdict{mutant: m, Outcome: survived}
	start := time.Now()
	defer func() { v.Seconds = time.Since(start).Seconds() }()
	dir, err := os.MkdirTemp(l.dir, "")
	if err != nil {
		return v, err
	}
	defer os.RemoveAll(dir)
	overlay, err := m.overlay(dir)
	if err != nil {
		return v, err
	}
	for _, pkg := range append([]string{m.Pkg}, nets[m.Pkg]...) {
		base, err := l.baseline(ctx, pkg)
		if err != nil {
			return v, err
		}
		bin := filepath.Join(dir, "test.exe")
		if out, err := build(ctx, bin, pkg, "-overlay="+overlay); err != nil {
			if pkg == m.Pkg && ctx.Err() == nil {
				v.Outcome = invalid
				return v, nil
			}
			return v, fmt.Errorf("build %s: %w\n%s", pkg, err, out)
		}
		v.Outcome, v.By, err = base.judge(ctx, pkg, bin)
		if err != nil || v.Outcome != survived {
			return v, err
		}
	}
	return v, nil
}

// overlay writes the changed file and returns the file that the go command takes it from.
func (m *mutant) overlay(dir string) (string, error) {
	name, err := filepath.Abs(filepath.FromSlash(m.File))
	if err != nil {
		return "", err
	}
	src, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(dir, path.Base(m.File))
	src = []byte(string(src[:m.from]) + m.text + string(src[m.to:]))
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{name: changed}})
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, errors.Join(err, os.WriteFile(changed, src, 0o644),
		os.WriteFile(overlay, list, 0o644))
}

// build compiles the tests of a package.
func build(ctx context.Context, bin, pkg string, flags ...string) ([]byte, error) {
	args := append([]string{"test", "-c", "-ldflags=-s -w", "-o", bin}, flags...)
	return exec.CommandContext(ctx, "go", append(args, pkg)...).CombinedOutput()
}

// baseline is how the tests of a package run on the source as it is.
type baseline struct {
	flags []string // of every run
	parts []part
}

// part is some of the tests of a package, with what they take.
type part struct {
	flags []string
	limit time.Duration
}

// baseline runs the tests of a package without a change, once.
func (l *lab) baseline(ctx context.Context, pkg string) (*baseline, error) {
	l.mu.Lock()
	once := l.bases[pkg]
	if once == nil {
		once = sync.OnceValues(func() (*baseline, error) { return l.measure(ctx, pkg) })
		l.bases[pkg] = once
	}
	l.mu.Unlock()
	return once()
}

var passed = regexp.MustCompile(`(?m)^--- PASS: (\S+) \((\S+)\)$`)

func (l *lab) measure(ctx context.Context, pkg string) (*baseline, error) {
	dir, err := os.MkdirTemp(l.dir, "")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "test.exe")
	if out, err := build(ctx, bin, pkg); err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	b := &baseline{flags: []string{"-test.failfast"}}
	if _, err := test(ctx, pkg, bin, "-test.run=^$", "-rapid.nofailfile"); err == nil {
		b.flags = append(b.flags, "-rapid.nofailfile") // a failure leaves no file in the tree
	}
	out, err := test(ctx, pkg, bin, append(b.flags, "-test.v", "-test.timeout=30m")...)
	if err != nil {
		return nil, fmt.Errorf("tests of %s without a mutation: %w\n%s", pkg, err, tail(out))
	}
	var names []string
	var fast, slow time.Duration
	for _, m := range passed.FindAllStringSubmatch(out, -1) {
		seconds, err := strconv.ParseFloat(strings.TrimSuffix(m[2], "s"), 64)
		if err != nil {
			return nil, err
		}
		if took := time.Duration(seconds * float64(time.Second)); took > fastTest {
			names = append(names, m[1])
			slow += took
		} else {
			fast += took
		}
	}
	if len(names) == 0 {
		b.parts = []part{{nil, fast*slowFactor + extraTime}}
		return b, nil
	}
	slowOnes := "^(" + strings.Join(names, "|") + ")$"
	b.parts = []part{
		{[]string{"-test.skip=" + slowOnes}, fast*slowFactor + extraTime},
		{[]string{"-test.run=" + slowOnes}, slow*slowFactor + extraTime},
	}
	return b, nil
}

func tail(s string) string { return s[max(0, len(s)-4000):] }

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^panic: (.*)|^fatal error: (.*)`)

// judge runs the binary of a mutant.
func (b *baseline) judge(ctx context.Context, pkg, bin string) (outcome, by string, err error) {
	for _, p := range b.parts {
		flags := append(append([]string{}, b.flags...), p.flags...)
		limited, cancel := context.WithTimeout(ctx, p.limit+extraTime)
		out, err := test(limited, pkg, bin, append(flags, "-test.timeout="+p.limit.String())...)
		hangs := limited.Err() != nil || strings.Contains(out, "panic: test timed out after")
		cancel()
		switch {
		case ctx.Err() != nil:
			return "", "", ctx.Err()
		case err == nil:
		case hangs:
			return timeout, pkg, nil
		default:
			by = pkg
			if m := failed.FindStringSubmatch(out); m != nil {
				by += " " + m[1] + m[2] + m[3]
			}
			return noticed, by, nil
		}
	}
	return survived, "", nil
}

// test runs a test binary in the directory of its package.
func test(ctx context.Context, pkg, bin string, flags ...string) (string, error) {
	cmd := exec.CommandContext(ctx, bin, flags...)
	cmd.Dir = filepath.FromSlash(pkg)
	cmd.WaitDelay = 5 * time.Second
	b, err := cmd.CombinedOutput()
	return string(b), err
}
