package compare

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func open(t testing.TB, d *data, name string) program {
	t.Helper()
	p, err := libraries[name](t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(name, err)
	}
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(name, err)
		}
	})
	if err := p.load(t.Context(), d); err != nil {
		t.Fatal(name, err)
	}
	return p
}

func names() []string { return slices.Sorted(maps.Keys(libraries)) }

// answers returns what a program answers to some questions.
func answers(t *testing.T, p program) map[string]any {
	ctx, out := t.Context(), map[string]any{}
	keep := func(name string, v any, err error) {
		if err != nil {
			t.Error(name, err)
		}
		out[name] = v
	}
	if err := p.rename(ctx, 7, "renamed"); err != nil {
		t.Error(err)
	}
	for _, id := range []int64{1, 7, userCount} {
		u, err := p.user(ctx, id)
		keep(fmt.Sprint("user ", id), u, err)
		list, err := p.latest(ctx, id, 20)
		for i := range list {
			list[i].At = list[i].At.UTC()
		}
		keep(fmt.Sprint("latest of ", id), list, err)
	}
	list, err := p.sales(ctx, timeOf(400), timeOf(450))
	for i := range list {
		list[i].At = list[i].At.UTC()
	}
	keep("sales", list, err)
	cities, err := p.cities(ctx)
	keep("cities", cities, err)
	if len(list) != 50 || len(cities) != 50 {
		t.Errorf("%d sales, %d cities", len(list), len(cities))
	}
	return out
}

// TestProgramsAgree: all libraries give the same answers.
func TestProgramsAgree(t *testing.T) {
	d := draw()
	want := answers(t, open(t, d, "kstone"))
	for _, name := range names() {
		got := answers(t, open(t, d, name))
		for question := range want {
			if !reflect.DeepEqual(got[question], want[question]) {
				t.Errorf("%s, %s:\n%+v\nkstone:\n%+v", name, question, got[question],
					want[question])
			}
		}
	}
}

// TestMistakes compiles five mistakes with each library: a misspelt column, a value of another
// type, a column of another table, a result of another type, and a join of unlike types. Those that
// the compiler finds are marked.
func TestMistakes(t *testing.T) {
	for _, name := range names() {
		found, want := mistakes(t, name)
		if !slices.Equal(found, want) {
			t.Errorf("%s: the compiler finds mistakes in lines %d, marked are %d", name, found,
				want)
		}
	}
}

// mistakes returns the lines with mistakes that the compiler finds, and those that are marked.
func mistakes(t *testing.T, name string) (found, want []int) {
	file := "wrong_" + name + ".go"
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// -e is for all errors instead of ten.
	out, _ := exec.Command("go", "build", "-gcflags=-e", "-tags", "wrong_"+name,
		".").CombinedOutput()
	for i, line := range strings.Split(string(source), "\n") {
		if strings.HasSuffix(line, "// error") {
			want = append(want, i+1)
		}
		if strings.Contains(string(out), fmt.Sprintf("%s:%d:", file, i+1)) {
			found = append(found, i+1)
		}
	}
	return found, want
}

// lines returns how many lines of a program are no comments, imports or empty ones.
func lines(t *testing.T, name string) (n int) {
	t.Helper()
	for _, file := range append([]string{name + ".go"}, beside[name]...) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		body := string(text)
		if strings.HasSuffix(file, ".go") {
			_, body, _ = strings.Cut(body, "\n)\n")
		}
		for line := range strings.Lines(body) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				n++
			}
		}
	}
	return n
}

// beside are the other files that are written by hand.
var beside = map[string][]string{
	"ent":  {"testdata/ent/schema/schema.go"},
	"sqlc": {"testdata/sqlc/schema.sql", "testdata/sqlc/query.sql"},
}

type question struct {
	name   string
	writes bool
	ask    func(ctx context.Context, p program, i int64) error
}

var questions = []question{
	{"row by key", false, func(ctx context.Context, p program, i int64) error {
		_, err := p.user(ctx, 1+i*7%userCount)
		return err
	}},
	{"20 rows of an index", false, func(ctx context.Context, p program, i int64) error {
		_, err := p.latest(ctx, 1+i*7%userCount, 20)
		return err
	}},
	{"join of 20 rows", false, func(ctx context.Context, p program, i int64) error {
		at := timeOf(1 + i*131%(orderCount-20))
		_, err := p.sales(ctx, at, at.Add(20*time.Minute))
		return err
	}},
	{"groups of 50,000 rows", false, func(ctx context.Context, p program, _ int64) error {
		_, err := p.cities(ctx)
		return err
	}},
	{"synced write", true, func(ctx context.Context, p program, i int64) error {
		return p.rename(ctx, 1+i*7%userCount, fmt.Sprint("name ", i))
	}},
}
