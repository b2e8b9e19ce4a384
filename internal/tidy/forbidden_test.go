package tidy_test

import (
	"go/ast"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// clockFiles may read the wall clock, each for the reason given. Everything else gets
// the time from its caller or from Options, so that tests can turn it.
var clockFiles = map[string]string{
	"engine/options.go":                   "the default of Options.Clock",
	"engine/open.go":                      "measures how long opening takes",
	"engine/directory.go":                 "dates the lock",
	"engine/internal/commit/counters.go":  "measures how long a commit takes",
	"engine/internal/follow/follow.go":    "knows how long commits have waited for a sync",
	"engine/internal/lease/lease.go":      "dates leases",
	"engine/internal/read/counters.go":    "measures how long a lookup takes",
	"engine/internal/upkeep/flush.go":     "measures how long a flush takes",
	"engine/internal/upkeep/merge.go":     "measures how long a merge takes",
	"engine/internal/upkeep/pace.go":      "limits the rate of merges and copies",
	"engine/internal/upkeep/recycle.go":   "knows how long files were kept for leases",
	"engine/internal/upkeep/reserve.go":   "limits how often a full disk is tried again",
	"engine/internal/upkeep/scheduler.go": "knows bursts, and when a merge is tried again",
	"engine/internal/upkeep/throttle.go":  "measures how long a writer was stalled",
	"engine/monitor/otel/otel.go":         "dates samples",
	"engine/internal/upkeep/upkeep.go":    "measures stalls that go on",

	"engine/console/console.go": "the default of Options.Clock",
	"engine/exec/run.go":        "the default of Options.Clock",

	"engine/ship/shipper.go":   "measures silence, whatever clock the database has",
	"engine/ship/directory.go": "removes temporary files of long ago",

	"engine/store/postgres/open.go": "the default clock of expiry",

	"wal/release.go": "limits how often a removal is tried again",
	"wal/retain.go":  "dates what Open retains",
	"wal/sync.go":    "measures how long a sync takes",

	"engine/table/options.go": "the default of Options.Clock",

	"engine/store/etcd/store.go": "the default clock of expiry",
	"engine/store/tikv/store.go": "the default clock of expiry",

	"engine/store/tikv/stamps.go": "knows how old a timestamp is",
}

// osNames are the names of package os that do not touch files.
var osNames = map[string]bool{
	"Args": true, "Getpid": true, "Hostname": true, "Getpagesize": true,
	"Getenv": true, "LookupEnv": true,
	"PathError": true, "SyscallError": true, "ErrNotExist": true, "ErrExist": true,
	"ErrPermission": true, "ErrClosed": true, "ErrInvalid": true,
}

// randNames are the names of package math/rand/v2 that draw nothing by themselves.
var randNames = map[string]bool{
	"New": true, "NewPCG": true, "NewChaCha8": true, "NewZipf": true,
	"Rand": true, "PCG": true, "ChaCha8": true, "Zipf": true, "Source": true,
}

// rawAtomic matches the functions that package sync/atomic had before its types.
var rawAtomic = regexp.MustCompile(
	`^(Add|Load|Store|Swap|CompareAndSwap|And|Or)(Int32|Int64|Uint32|Uint64|Uintptr|Pointer)$`)

func TestForbidden(t *testing.T) { report(t, checkForbidden(loadTree(t))) }

// checkForbidden keeps calls where they belong: files in internal/vfs, the clock
// in one place, printing in commands, random numbers of tests with a seed, and no relics.
func checkForbidden(files tree) []finding {
	parsed, found := files.goFiles()
	for _, g := range parsed {
		names := importNames(g)
		for _, spec := range g.ast.Imports {
			switch p, _ := strconv.Unquote(spec.Path.Value); {
			case p == "math/rand":
				found = append(found, g.find(spec.Pos(), "use math/rand/v2"))
			case p == "io/ioutil":
				found = append(found, g.find(spec.Pos(), "use io and os"))
			case p == "log" && isLibrary(g):
				found = append(found, g.find(spec.Pos(), "use the *slog.Logger of the options"))
			case (p == "syscall" || p == "golang.org/x/sys/unix") && isLibrary(g) && !isVFS(g):
				found = append(found, g.find(spec.Pos(), "system calls belong in internal/vfs"))
			}
		}
		ast.Inspect(g.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && names[x.Name] != "" {
				if why := forbiddenCall(g, names[x.Name], sel.Sel.Name); why != "" {
					found = append(found, g.find(sel.Pos(), "%s.%s: %s", x.Name, sel.Sel.Name, why))
				}
			}
			return true
		})
	}
	return found
}

// forbiddenCall says why the file may not use name of package pkg, or "".
func forbiddenCall(g *goFile, pkg, name string) string {
	switch pkg {
	case "sync/atomic":
		if rawAtomic.MatchString(name) {
			return "use the types of sync/atomic"
		}
	case "time":
		clock := name == "Now" || name == "Since" || name == "Until"
		if clock && isLibrary(g) && clockFiles[g.path] == "" {
			return "take the clock from the caller, or list the file in clockFiles"
		}
		if name == "Sleep" && g.isTest() && !strings.Contains(string(g.src), `"testing/synctest"`) {
			return "wait for the event instead, or use testing/synctest"
		}
	case "math/rand/v2":
		if g.isTest() && !randNames[name] {
			return "draw from testutil.Rand, so that every run of a test draws the same"
		}
	case "pgregory.net/rapid":
		if g.isTest() && name == "Check" {
			return "use testutil.Check, so that every run of a test draws the same"
		}
	case "os":
		if isLibrary(g) && !isVFS(g) && !osNames[name] {
			return "files are reached through internal/vfs"
		}
	case "fmt":
		if strings.HasPrefix(name, "Print") && isLibrary(g) {
			return "a library does not print"
		}
	}
	return ""
}

// isLibrary reports whether the file ends up in programs that embed kstone.
func isLibrary(g *goFile) bool {
	tool := strings.HasPrefix(g.path, "cmd/") || strings.HasPrefix(g.path, "examples/") ||
		g.dir() == "internal/torture"
	return !g.isTest() && !tool && !testOnly[g.dir()]
}

// isVFS reports whether the file may reach the file system. The files of segments are not
// part of a database, and package keyset is beside internal/vfs, not above it.
func isVFS(g *goFile) bool {
	return g.dir() == "internal/vfs" || g.dir() == "zonemap/keyset/internal/mapping"
}

// importNames maps the names under which a file sees its imports to their paths.
func importNames(g *goFile) map[string]string {
	names := map[string]string{}
	for _, spec := range g.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(strings.TrimSuffix(p, "/v2"))
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = p
	}
	return names
}

// TestClockFilesExist keeps the list of exceptions from outliving its files.
func TestClockFilesExist(t *testing.T) {
	files := loadTree(t)
	for name, why := range clockFiles {
		if _, ok := files[name]; !ok {
			t.Errorf("clockFiles names %s (%s), which does not exist", name, why)
		}
	}
}
