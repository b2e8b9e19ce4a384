package tidy_test

import (
	"fmt"
	"strings"
	"testing"
)

// planted are sources that break one rule each. A rule that does not complain about
// its case has stopped working.
var planted = []struct {
	name  string
	check func(tree) []finding
	files map[string]string
	want  string // part of the only finding; "" for none
}{
	{"upward import", checkLayers, map[string]string{
		"memtable/a.go": "package memtable\nimport _ \"" + modulePath + "/engine\"\n",
	}, "upward, from row 2 to row 5"},
	{"sideways import", checkLayers, map[string]string{
		"memtable/a.go": "package memtable\nimport _ \"" + modulePath + "/wal\"\n",
	}, "sideways, both are in row 2"},
	{"sideways import for another platform", checkLayers, map[string]string{
		"wal/a_windows.go": "package wal\nimport _ \"" + modulePath + "/sst\"\n",
	}, "sideways"},
	{"downward import", checkLayers, map[string]string{
		"stripe/a.go": "package stripe\nimport _ \"" + modulePath + "/sst\"\n",
	}, ""},
	{"import of the shared vocabulary in row 0", checkLayers, map[string]string{
		"keycodec/a.go": "package keycodec\nimport _ \"" + modulePath + "/internal/corrupt\"\n",
	}, ""},
	{"sideways import in a test", checkLayers, map[string]string{
		"sst/a_test.go": "package sst_test\nimport _ \"" + modulePath + "/wal\"\n",
	}, ""},
	{"import of the engine in one of its rooms", checkLayers, map[string]string{
		"engine/internal/upkeep/a.go": "package upkeep\nimport _ \"" + modulePath + "/engine\"\n",
	}, "lower rooms only"},
	{"import of a room in the engine", checkLayers, map[string]string{
		"engine/a.go": "package engine\nimport _ \"" + modulePath + "/engine/internal/upkeep\"\n",
	}, ""},
	{"import of storage above the seam", checkLayers, map[string]string{
		"engine/plan/spans/a.go": "package spans\nimport _ \"" + modulePath + "/zonemap\"\n",
	}, "it is storage"},
	{"import of what back ends share above the seam", checkLayers, map[string]string{
		"engine/table/a.go": "package table\nimport _ \"" + modulePath + "/engine/store/remote\"\n",
	}, "for back ends"},
	{"import of storage in a test above the seam", checkLayers, map[string]string{
		"engine/table/a_test.go": "package table\nimport _ \"" + modulePath + "/engine\"\n",
	}, ""},
	{"import of the seam in the engine's store", checkLayers, map[string]string{
		"engine/local/a.go": "package local\nimport _ \"" + modulePath + "/engine\"\n",
	}, ""},
	{"unknown package", checkLayers, map[string]string{
		"novelty/a.go": "package novelty\n",
	}, "in no row"},
	{"terminal library in the engine", checkLayers, map[string]string{
		"engine/a.go": "package engine\nimport _ \"github.com/spf13/cobra\"\n",
	}, "only commands may"},
	{"test library in the engine", checkLayers, map[string]string{
		"engine/a.go": "package engine\nimport _ \"pgregory.net/rapid\"\n",
	}, "only tests may"},
	{"one command imports another", checkLayers, map[string]string{
		"cmd/kstone-cli/a.go": "package main\nimport _ \"" + modulePath + "/cmd/kstone-bench/x\"\n",
	}, "sideways"},

	{"long file", checkSizes, map[string]string{
		"a.go": "package p\n" + strings.Repeat("\n", maxFileLines),
	}, "801 lines"},
	{"many files", checkSizes, manyFiles(), "36 files without tests"},
	{"long function", checkSizes, map[string]string{
		"a.go": "package p\nfunc f() {\n" + strings.Repeat("\tf()\n", maxFuncLines-1) + "}\n",
	}, "function f has 71 lines"},
	{"long comments in a function", checkSizes, map[string]string{
		"a.go": "package p\nfunc f() {\n" + strings.Repeat("\t// why\n", maxFuncLines) + "}\n",
	}, ""},
	{"wide line", checkSizes, map[string]string{
		"a.go": "package p\n\n//" + strings.Repeat(" x", 50) + "\n",
	}, "a.go:3: 102 columns"},
	{"wide line by tabs", checkSizes, map[string]string{
		"a.go": "package p\n\n" + strings.Repeat("\t", 25) + "//\n",
	}, "102 columns"},
	{"wide line of one word", checkSizes, map[string]string{
		"a.go": "package p\n\n// https://example.com/" + strings.Repeat("x", 100) + "\n",
	}, ""},
	{"long README", checkSizes, map[string]string{
		"README.md": strings.Repeat("\n", maxReadmeRows+1),
	}, "201 lines"},

	{"vague file", checkNames, map[string]string{"sst/util.go": "package sst\n"}, "not util"},
	{"vague test", checkNames, map[string]string{"sst/misc_test.go": "package sst\n"}, "not misc"},
	{"vague package", checkNames, map[string]string{"internal/common/a.go": "package common\n"},
		"not common"},

	{"no package comment", checkDocumented, map[string]string{
		"p/a.go": "package p\n", "p/b.go": "package p\n",
	}, "package p has no package comment"},
	{"strange package comment", checkDocumented, map[string]string{
		"a.go": "// Stuff.\npackage p\n",
	}, "must start \"Package p \""},
	{"undocumented function", checkDocumented, inP("func F() {}"), "exported F has no comment"},
	{"undocumented method", checkDocumented, inP("type t int\n\n// T is.\ntype T int\n" +
		"func (t) F() {}\nfunc (*T) G() {}"), "exported G has no comment"},
	{"undocumented generic method", checkDocumented, inP("// T is.\ntype T[K any] int\n" +
		"func (*T[K]) G() {}"), "exported G has no comment"},
	{"undocumented type", checkDocumented, inP("type T int"), "exported T has no comment"},
	{"undocumented constant", checkDocumented, inP("const C = 1"), "exported C has no comment"},
	{"documented group", checkDocumented, inP("// The letters.\nconst (\n\tA = 1\n\tB = 2\n)"), ""},
	{"comment of something else", checkDocumented, inP("// Fx does.\nfunc F() {}"),
		"start with the name F"},

	{"note to oneself", checkLeftovers, inP("// F is. TO" + "DO: x.\nfunc F() {}"),
		"TO" + "DO"},
	{"note in a document", checkLeftovers, map[string]string{"a.md": "# A\n\nFIX" + "ME\n"},
		"FIX" + "ME"},
	{"commented-out statements", checkLeftovers,
		inP("func f() {\n\t// x := f()\n\t// if x {\n\t// }\n}"), "commented-out code"},
	{"commented-out function", checkLeftovers, inP("// func f() {\n// \treturn\n// }"),
		"commented-out code"},
	{"prose and formulas", checkLeftovers, inP("// f returns\nfunc f() {\n\t// size = 8*n\n" +
		"\t// if it fits: done\n\t// Close(f)\n\t// lo <= hi\n}"), ""},

	{"file call", checkForbidden, inFile("sst/a.go", "os", "func f() { os.Remove(\"x\") }"),
		"reached through internal/vfs"},
	{"file call in vfs", checkForbidden,
		inFile("internal/vfs/a.go", "os", "func f() { os.Remove(\"x\") }"), ""},
	{"process id", checkForbidden, inFile("engine/a.go", "os", "var _ = os.Getpid()"), ""},
	{"system call", checkForbidden, inFile("wal/a.go", "syscall", ""), "belong in internal/vfs"},
	{"clock", checkForbidden, inFile("wal/a.go", "time", "var _ = time.Now()"), "take the clock"},
	{"clock in a test", checkForbidden, inFile("wal/a_test.go", "time", "var _ = time.Now()"), ""},
	{"sleep in a test", checkForbidden,
		inFile("wal/a_test.go", "time", "func f() { time.Sleep(1) }"), "wait for the event"},
	{"renamed clock", checkForbidden, map[string]string{
		"wal/a.go": "package wal\nimport clock \"time\"\nvar _ = clock.Now()\n",
	}, "take the clock"},
	{"print", checkForbidden, inFile("wal/a.go", "fmt", "func f() { fmt.Println() }"),
		"does not print"},
	{"print in a command", checkForbidden,
		inFile("cmd/kstone-cli/a.go", "fmt", "func f() { fmt.Println() }"), ""},
	{"old random numbers", checkForbidden, inFile("wal/a_test.go", "math/rand", ""),
		"math/rand/v2"},
	{"numbers without a seed", checkForbidden,
		inFile("wal/a_test.go", "math/rand/v2", "var _ = rand.IntN(2)"), "testutil.Rand"},
	{"numbers with a seed", checkForbidden,
		inFile("wal/a_test.go", "math/rand/v2", "var _ = rand.New(rand.NewPCG(1, 2))"), ""},
	{"properties without a seed", checkForbidden,
		inFile("wal/a_test.go", "pgregory.net/rapid", "var _ = rapid.Check"), "testutil.Check"},
	{"raw atomics", checkForbidden,
		inFile("wal/a.go", "sync/atomic", "func f(p *int64) { atomic.AddInt64(p, 1) }"),
		"use the types"},
	{"log", checkForbidden, inFile("wal/a.go", "log", ""), "slog"},

	{"fuzz target", checkFuzzTargets, inFile("wal/a_test.go", "testing",
		"func f(f *testing.F) { f.Fuzz(func(t *testing.T, b []byte) { g(b) }) }"),
		"begins with"},
	{"watched fuzz target", checkFuzzTargets, inFile("wal/a_test.go", "testing",
		"func f(f *testing.F) {\n"+
			"f.Fuzz(func(t *testing.T, b []byte) { defer testutil.Watch(b)(); g(b) }) }"), ""},

	{"short tests", checkEfforts,
		inFile("wal/a_test.go", "testing", "var _ = testing.Short()"), "testutil.Effort"},
	{"size in a variable", checkEfforts,
		inFile("wal/a_test.go", "os", "const runs = \"KSTONE_RUNS\""), "KSTONE_RUNS: use testutil"},
	{"size of a process in a variable", checkEfforts,
		inFile("wal/a_test.go", "os", "const runs = \"KSTONE_RUNS=7\""), "use testutil.Effort"},
	{"seed in a variable", checkEfforts,
		inFile("wal/a_test.go", "os", "const seed = \"KSTONE_SEED=7\""), ""},
	{"test without the race detector", checkEfforts, map[string]string{
		"wal/a_test.go": "//go:build !race\n\npackage wal\n",
	}, "for the tag race"},
	{"test without invariants", checkEfforts, map[string]string{
		"wal/a_test.go": "//go:build linux && !invariants\n\npackage wal\n",
	}, "for the tag !invariants"},
	{"helper that skips under the race detector", checkEfforts, inFile("wal/a_test.go", "testing",
		"func f(t *testing.T) {\n\ttestutil.SkipUnderRace(t, x)\n}"), "only tests call it"},
	{"test that skips under the race detector", checkEfforts, inFile("wal/a_test.go", "testing",
		"func TestA(t *testing.T) {\n\ttestutil.SlowUnderRace(t, x)\n}"), ""},
	{"skip that the script does not find", checkEfforts, inFile("wal/a_test.go", "testing",
		"func TestA(t *testing.T) {\n\tu.SlowUnderRace(t, x)\n}"), "beginning of a line"},

	{"two titles", checkMarkdown, map[string]string{"a.md": "# A\n\n# B\n"}, "2 first-level"},
	{"no title", checkMarkdown, map[string]string{"a.md": "text\n"}, "0 first-level"},
	{"comment in a fence", checkMarkdown, map[string]string{"a.md": "# A\n```\n# sh\n```\n"}, ""},
	{"dead link", checkMarkdown, map[string]string{"a.md": "# A\n[b](b.md)\n"}, "no such file"},
	{"dead anchor", checkMarkdown, map[string]string{
		"a.md": "# A\n[b](d/b.md#c)\n", "d/b.md": "# B\n",
	}, "no such heading"},
	{"live links", checkMarkdown, map[string]string{
		"a.md":   "# A\n[b](d/b.md#c-and-d) [d](d) [w](https://x.y/z) [a](#a)\n",
		"d/b.md": "# B\n## C, and D\n[up](../a.md)\n",
	}, ""},

	{"too many words", checkDocuments, map[string]string{
		"docs/a.md": "# A\n\nFor us." + strings.Repeat(" word", maxDocWords-3),
	}, fmt.Sprintf("%d words", maxDocWords+1)},
	{"words that do not count", checkDocuments, map[string]string{
		"a.md":       strings.Repeat(" word", maxDocWords),
		promisesPage: "# A\n\nFor us." + strings.Repeat(" word", maxDocWords),
		"docs/a.md": "# A\n\nFor us.\n" + generatedBegin + " -->\n" +
			strings.Repeat("word\n", maxDocWords) + generatedEnd + " -->\n",
	}, ""},
	{"page without readers", checkDocuments, map[string]string{
		"docs/a.md": "# A\n\nWords.\n", "docs/decisions/0001-a.md": "# A\n\nStatus: accepted.\n",
	}, "does not begin with its readers"},

	{"README like the example", checkReadmeExample, map[string]string{
		"README.md": "# A\n\n```go\nf()\n\ng()\n```\n\n```\n1\n```\n",
		exampleFile: "\tf()\n\n\tg()\n\t// Output:\n\t// 1\n",
	}, ""},
	{"README with other code", checkReadmeExample, map[string]string{
		"README.md": "# A\n\n```go\nf()\n```\n\n```\n1\n```\n",
		exampleFile: "\tg()\n\t// Output:\n\t// 1\n",
	}, "the Go block is not part"},
	{"README with other output", checkReadmeExample, map[string]string{
		"README.md": "# A\n\n```go\nf()\n```\n\n```\n1\n```\n",
		exampleFile: "\tf()\n\t// Output:\n\t// 2\n",
	}, "the output is not that"},

	{"test that exists", checkTestNames, map[string]string{
		"a.md": "# A\n`TestB` and `TestKitchen` of `x`: not `Test` nor TestD\n",
		"b/b_test.go": "package b\n\nfunc TestB(t *testing.T) {}\n" +
			"func TestKitchen(t *testing.T) {}\n",
	}, ""},
	{"test that is gone", checkTestNames, map[string]string{
		"a.md": "# A\n`TestB` shows it.\n",
	}, "names TestB"},

	{"no Go", checkSizes, map[string]string{"a.go": "pakcage p\n"}, "expected 'package'"},
}

// inP is a tree of one file of package p with a package comment.
func inP(decls string) map[string]string {
	return map[string]string{"p/a.go": "// Package p is.\npackage p\n\n" + decls + "\n"}
}

// inFile is a tree of one file with one import.
func inFile(name, pkg, decls string) map[string]string {
	return map[string]string{name: "package p\n\nimport \"" + pkg + "\"\n\n" + decls + "\n"}
}

// TestPlantedViolations shows every rule something to complain about, and a few
// things that look like violations and are none.
// manyFiles is a package with one file too many.
func manyFiles() map[string]string {
	files := map[string]string{"p/a_test.go": "package p\n"}
	for i := range maxFiles + 1 {
		files[fmt.Sprintf("p/a%d.go", i)] = "package p\n"
	}
	return files
}

func TestPlantedViolations(t *testing.T) {
	for _, c := range planted {
		t.Run(c.name, func(t *testing.T) {
			files := tree{}
			for name, src := range c.files {
				files[name] = []byte(src)
			}
			found := c.check(files)
			switch {
			case c.want == "" && len(found) > 0:
				t.Errorf("complains without reason: %v", found)
			case c.want != "" && len(found) != 1:
				t.Errorf("want one finding with %q, got %v", c.want, found)
			case c.want != "" && !strings.Contains(found[0].String(), c.want):
				t.Errorf("want a finding with %q, got %v", c.want, found[0])
			}
		})
	}
}
