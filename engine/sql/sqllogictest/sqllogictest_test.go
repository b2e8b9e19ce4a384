package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// judged runs a file and returns its counts and what was reported as wrong.
func judged(t *testing.T, text string) (counts tally, wrong []string) {
	t.Helper()
	j := &judge{tally: &counts, limit: time.Minute}
	j.report = func(line int, what string) { wrong = append(wrong, what) }
	if err := j.run(parse(text, "kstone")); err != nil {
		t.Fatal(err)
	}
	return counts, wrong
}

func example(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/example.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestExampleIsEqual(t *testing.T) {
	c, wrong := judged(t, example(t))
	if c.equal != c.queries || c.queries != 9 || c.done != c.statements || c.statements != 8 {
		for kind, r := range c.reasons {
			t.Logf("refused: %s: %s", kind, r.example)
		}
		t.Errorf("%+v, wrong: %s", c, strings.Join(wrong, "\n"))
	}
}

// TestChangedResultsAreWrong changes one line of a result after the other.
func TestChangedResultsAreWrong(t *testing.T) {
	lines := strings.Split(example(t), "\n")
	end := slices.Index(lines, "onlyif kstone")
	in, skipped := false, false
	for i, line := range lines[:end] {
		switch {
		case line == "":
			in, skipped = false, false
		case strings.HasPrefix(line, "onlyif"), line == "skipif kstone":
			skipped = true
		case line == "----":
			in = true
		case in && !skipped:
			changed := slices.Clone(lines)
			changed[i] += "0"
			if c, _ := judged(t, strings.Join(changed, "\n")); c.wrong != 1 {
				t.Errorf("line %d, %q: %d queries are wrong", i+1, line, c.wrong)
			}
		}
	}
}

func TestWrongAndRefusedAreCounted(t *testing.T) {
	c, wrong := judged(t, `statement error
CREATE TABLE t(a INTEGER)

query I nosort one
SELECT 1
----
1

query I nosort one
SELECT 2
----
2

query II nosort
SELECT 1
----
1

query I nosort
SELECT b FROM t
----
1

statement ok
INSERT INTO t VALUES(1, 2, 3)

query I nosort
SELECT count(*) FROM t
----
1
`)
	want := tally{files: 1, queries: 5, equal: 1, wrong: 2, refused: 2, statements: 2,
		unfailing: 1}
	got := c
	got.elapsed, got.reasons = 0, nil
	if got.queries != want.queries || got.equal != want.equal || got.wrong != want.wrong ||
		got.refused != want.refused || got.unfailing != want.unfailing || got.done != 0 {
		t.Errorf("%+v, want %+v: %s", got, want, strings.Join(wrong, "\n"))
	}
	if len(c.reasons) != 3 {
		t.Errorf("%d reasons", len(c.reasons))
	}
}

func TestBadFiles(t *testing.T) {
	for text, want := range map[string]string{
		"statement maybe\nSELECT 1":  "line 1: wrong statement",
		"\nquery X nosort\nSELECT 1": "line 2: wrong query",
		"query I upward\nSELECT 1":   "line 1: wrong query",
		"skipif\n":                   "skipif needs a database",
		"hash-threshold many\n":      "hash-threshold",
		"select 1\n":                 "unknown record",
		"query I\nSELECT 1\n\nhalt":  "",
		"statement ok":               "",
	} {
		var err error
		for _, err = range parse(text, "kstone") {
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a/10/x.test", "a/100/y.test", "b.test", "b.txt"} {
		path := filepath.Join(dir, "test", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		text := "query I nosort\nSELECT 1\n----\n1\n\nquery I nosort\nSELECT soon(1)\n----\n1\n"
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	o := options{as: "kstone", reasons: 5, limit: time.Minute}
	ok, err := o.run(&out, []string{filepath.Join(dir, "test")})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	for _, want := range []string{"test/a: 2 queries, 0 statements refused: there is no function",
		"  test/a      2        4      2  50.00      0        2  50.00",
		"     all      3        6      3"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &out)
		}
	}
	if _, err := o.run(&out, []string{filepath.Join(dir, "test", "a", "none")}); err == nil {
		t.Error("a folder that does not exist is accepted")
	}
	if got := spread([]string{"a", "b", "c", "d"}, 2); !slices.Equal(got, []string{"a", "c"}) {
		t.Error(got)
	}
}
