package tidy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
)

var ok = testutil.OK

// TestEveryPlatform checks the types of all packages for each platform of the Makefile,
// against the standard library as it is there: what the compiler would refuse, in a tenth
// of the time that compiling takes. `make check` compiles what has files for a platform.
func TestEveryPlatform(t *testing.T) {
	platforms := makePlatforms(t)
	if len(platforms) < 6 {
		t.Fatalf("the Makefile names the platforms %v", platforms)
	}
	for _, p := range platforms {
		t.Run(p, func(t *testing.T) {
			t.Parallel()
			for _, err := range checkTypes(t, filepath.Join("..", ".."), p) {
				t.Error(err)
			}
		})
	}
}

// makePlatforms returns the platforms that the Makefile has, as GOOS/GOARCH.
func makePlatforms(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	ok(t, err)
	line := regexp.MustCompile(`(?m)^PLATFORMS = (.*)$`).FindSubmatch(text)
	if line == nil {
		t.Fatal("the Makefile has no PLATFORMS")
	}
	return strings.Fields(string(line[1]))
}

// listed is what `go list` says of a package.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct{ Main bool }
	Error           *struct{ Err string }
}

// checkTypes returns what is wrong with the packages of the module in dir on a platform.
func checkTypes(t *testing.T, dir, platform string) []error {
	t.Helper()
	goos, goarch, _ := strings.Cut(platform, "/")
	list := exec.Command("go", "list", "-e", "-deps",
		"-json=ImportPath,Dir,GoFiles,ImportMap,Module,Error", "./...")
	list.Dir = dir
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var errs []error
	done := imports{"unsafe": types.Unsafe}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); { // dependencies come first
		var p listed
		ok(t, d.Decode(&p))
		if p.Error != nil {
			errs = append(errs, fmt.Errorf("%s: %s", platform, p.Error.Err))
		}
		if done[p.ImportPath] == nil {
			errs = append(errs, done.add(&p, platform, goarch)...)
		}
	}
	return errs
}

// imports are packages whose types are known, by import path.
type imports map[string]*types.Package

// Import returns a package that has been added.
func (m imports) Import(path string) (*types.Package, error) {
	if p := m[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s is not listed", path)
}

// mapped resolves the import paths of one package, which its vendoring may change.
type mapped struct {
	imports
	paths map[string]string
}

func (m mapped) Import(path string) (*types.Package, error) {
	if p, ok := m.paths[path]; ok {
		path = p
	}
	return m.imports.Import(path)
}

// add checks the types of a package: of one of the module with its function bodies. Of the
// others only what they declare matters, and their faults are not reported.
func (m imports) add(p *listed, platform, goarch string) (errs []error) {
	ours := p.Module != nil && p.Module.Main
	report := func(err error) {
		if ours {
			errs = append(errs, fmt.Errorf("%s: %w", platform, err))
		}
	}
	var files []*ast.File
	fset := token.NewFileSet()
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil,
			parser.SkipObjectResolution)
		if err != nil {
			report(err)
			continue
		}
		files = append(files, f)
	}
	conf := types.Config{
		IgnoreFuncBodies: !ours,
		Sizes:            types.SizesFor("gc", goarch),
		Importer:         mapped{m, p.ImportMap},
		Error:            report,
	}
	m[p.ImportPath], _ = conf.Check(p.ImportPath, fset, files, nil) // see Error
	return errs
}

// TestEveryPlatformIsChecked: a module that is right on one platform only.
func TestEveryPlatformIsChecked(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":         "module planted\n\ngo 1.26.0\n",
		"one.go":         "package planted\n\nimport \"syscall\"\n\nvar _ = syscall.Fdatasync\n",
		"two_windows.go": "package planted\n\nfunc two() int { return \"text\" }\n",
	} {
		ok(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	for platform, want := range map[string][]string{
		"linux/amd64":   nil,
		"darwin/arm64":  {"Fdatasync"},
		"windows/arm64": {"Fdatasync", "two_windows.go"},
	} {
		errs := checkTypes(t, dir, platform)
		if len(errs) != len(want) {
			t.Errorf("%s: %v", platform, errs)
			continue
		}
		for i, err := range errs {
			if !strings.Contains(err.Error(), want[i]) {
				t.Errorf("%s: %v, want %s", platform, err, want[i])
			}
		}
	}
}
