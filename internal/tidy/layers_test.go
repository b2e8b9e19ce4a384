package tidy_test

import (
	"path"
	"strconv"
	"strings"
	"testing"
)

// rows is the table of layers. A package belongs to the longest entry that is its
// path or a parent of it, and may import packages of strictly lower rows and of its
// own entry. A new package needs a line here, and one in docs/architecture.md.
var rows = map[string]int{
	"keycodec":           0,
	"keycodec/shard":     0,
	"internal/base":      0,
	"internal/corrupt":   0,
	"internal/elle":      0,
	"internal/figure":    0,
	"internal/garbage":   0,
	"internal/histogram": 0,
	"internal/schemes":   0,
	"zonemap/zone":       0,

	"engine/internal/kv": 1,
	"internal/cache":     1,
	"internal/cursor":    1,
	"internal/rangedel":  1,
	"internal/vfs":       1,
	"keycodec/advise":    1,
	"keycodec/composite": 1,
	"keycodec/rowkey":    1,
	"zonemap":            1,
	"zonemap/keyset":     1,

	"internal/manifest": 2,
	"internal/merge":    2,
	"memtable":          2,
	"sst":               2,
	"wal":               2,

	"compaction": 3,
	"stripe":     4,
	"engine":     5,

	"engine/monitor":         6,
	"engine/expr":            6,
	"engine/internal/syntax": 6,
	"engine/ship":            7,
	"engine/store":           6,
	"engine/schema":          7,
	"engine/plan/spans":      8,
	"engine/plan":            9,
	"engine/exec":            10,
	"engine/table":           11,
	"engine/sql":             12,

	"engine/table/internal/rowio":      8,
	"engine/table/internal/statistics": 10,
	"engine/table/typed":               12,
	"engine/local":                     12,

	"testdata": 0, // the bundled data sets, embedded

	"internal/torture": 6,

	"internal/completion": 13,
	"internal/overview":   13,
	"engine/console":      14,

	"engine/console/browser": 15,

	"engine/adapters":         13,
	"engine/sql/driver":       13,
	"engine/sql/sqllogictest": 13,

	"engine/table/typed/compare": 13,

	"examples":         15,
	"cmd/kstone-cli":   15,
	"cmd/kstone-gen":   15,
	"cmd/kstone-bench": 15,
}

// rooms are the packages inside of engine and engine/plan. None of them may import the package
// that they are in, whose DB or resolved queries they do not know, nor a room that is not lower
// (docs/decisions/0025-rooms-in-the-engine.md, docs/planner.md).
var rooms = map[string]int{
	"engine/internal/lease":   0,
	"engine/internal/salvage": 1,
	"engine/internal/upkeep":  1,
	"engine/internal/history": 1,
	"engine/internal/read":    1,
	"engine/internal/commit":  2,
	"engine/internal/follow":  3,
	"engine/internal/source":  2,

	"engine/plan/internal/conjunct": 0,
	"engine/plan/internal/operator": 0,
	"engine/plan/internal/stats":    0,
	"engine/plan/internal/estimate": 1,
	"engine/plan/internal/logical":  1,
	"engine/plan/internal/explain":  2,
	"engine/plan/internal/advise":   3,
}

// aboveTheSeam are the packages that know storage as an engine/store.Store only, and belowTheSeam
// those that they may import beside each other: a program with another back end links neither
// stripes nor files.
var (
	aboveTheSeam = map[string]bool{
		"engine/store": true, "engine/expr": true, "engine/internal/syntax": true,
		"engine/schema": true, "engine/plan": true, "engine/plan/spans": true,
		"engine/exec": true, "engine/table": true, "engine/table/internal/rowio": true,
		"engine/table/internal/statistics": true, "engine/table/typed": true, "engine/sql": true,
	}
	belowTheSeam = map[string]bool{
		"keycodec": true, "keycodec/shard": true, "zonemap/zone": true, "engine/internal/kv": true,
		"internal/base": true, "internal/corrupt": true, "internal/cursor": true,
		"internal/elle": true, "internal/rangedel": true, "internal/merge": true,
		"internal/schemes": true,
	}
)

// shared may be imported by all, row 0 included: the common vocabulary.
var shared = map[string]bool{"internal/base": true, "internal/corrupt": true}

// testOnly packages may be imported by tests and hold nothing that ships.
var testOnly = map[string]bool{
	"internal/tidy": true, "internal/tidy/api": true, "internal/testutil": true,
	"internal/canary": true, "internal/mutants": true, "internal/powercut": true,
	"internal/vfs/vfstest": true, "engine/internal/suite": true,
	"internal/planregret": true, "engine/sql/sqllogictest": true,
	"engine/store/etcd/etcdtest": true, "engine/store/tikv/tikvtest": true,
	"engine/ship/shiptest": true, "engine/ship/s3/s3test": true,
	"engine/store/postgres/postgrestest": true, "engine/store/remote/remotetest": true,
}

// cmdModules serve the terminal: a program that embeds kstone must not link them.
var cmdModules = []string{
	"github.com/reeflective/readline",
	"github.com/schollz/progressbar", "github.com/spf13/", "golang.org/x/term",
}

// testModules are for tests.
var testModules = []string{
	"github.com/anishathalye/porcupine", "github.com/cockroachdb/datadriven",
	"github.com/rogpeppe/go-internal",
	"go.uber.org/goleak", "pgregory.net/rapid", "testing",
}

// TestLayers checks that imports go strictly downward through the rows. It reads the
// import clauses itself instead of asking `go list`, which sees the files of one
// platform and one set of build tags only.
func TestLayers(t *testing.T) { report(t, checkLayers(loadTree(t))) }

func checkLayers(files tree) []finding {
	parsed, found := files.goFiles()
	for _, g := range parsed {
		unit, row := layerOf(g.dir())
		if row < 0 && !testOnly[g.dir()] {
			if g.dir() != "." || !g.isTest() {
				found = append(found, finding{g.path, 0, "package is in no row of the layer table"})
			}
			continue
		}
		for _, spec := range g.ast.Imports {
			target, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				continue // the parser has let through a literal that is no string
			}
			if why := importError(g, unit, row, target); why != "" {
				found = append(found, g.find(spec.Pos(), "%s imports %s: %s", g.dir(), target, why))
			}
		}
	}
	return found
}

// importError says why the file may not import target, or "".
func importError(g *goFile, unit string, row int, target string) string {
	local, inModule := strings.CutPrefix(target, modulePath+"/")
	if !inModule {
		switch {
		case row < 12 && hasPrefixOf(target, cmdModules):
			return "only commands may"
		case !g.isTest() && !testOnly[g.dir()] && hasPrefixOf(target, testModules):
			return "only tests may"
		}
		return ""
	}
	if g.isTest() {
		return "" // a test may use any package that its own package may or may not
	}
	switch {
	case testOnly[local] && testOnly[g.dir()]:
		return ""
	case testOnly[local]:
		return "only tests may"
	}
	other, otherRow := layerOf(local)
	switch {
	case aboveTheSeam[unit] && !testOnly[g.dir()] && !aboveTheSeam[other] && !belowTheSeam[local]:
		return "it is storage: see engine/store"
	case aboveTheSeam[unit] && unit != "engine/store" && strings.HasPrefix(local, "engine/store/"):
		return "it is for back ends, and makes every program with tables larger"
	case otherRow < 0:
		return "it is in no row of the layer table"
	case other == unit:
		return roomError(g.dir(), local)
	case shared[other], otherRow < row:
		return ""
	case otherRow == row:
		return "sideways, both are in row " + strconv.Itoa(row)
	}
	return "upward, from row " + strconv.Itoa(row) + " to row " + strconv.Itoa(otherRow)
}

// roomError says why a package may not import another one of its own unit, or "".
func roomError(from, to string) string {
	own, inRoom := rooms[from]
	if other, isRoom := rooms[to]; !inRoom || isRoom && other < own {
		return ""
	}
	return "a room imports lower rooms only"
}

// layerOf returns the entry of rows that dir belongs to, and its row; -1 if none.
func layerOf(dir string) (unit string, row int) {
	for d := dir; d != "." && d != "/"; d = path.Dir(d) {
		if r, ok := rows[d]; ok {
			return d, r
		}
	}
	return "", -1
}

func hasPrefixOf(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}
