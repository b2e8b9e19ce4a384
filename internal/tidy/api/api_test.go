package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kstonedb/kstone/internal/testutil"
)

var ok = testutil.OK

var update = flag.Bool("update", false, "rewrite the golden files")

const module = "github.com/kstonedb/kstone/"

// stable are the packages whose API is stable, as README.md says.
var stable = []string{"engine", "engine/local", "engine/sql", "engine/table", "engine/table/typed",
	"keycodec"}

// TestAPI compares what the stable packages export with the golden files.
//
// Promise (reads and writes): The exported API changes only with its golden file.
func TestAPI(t *testing.T) {
	for _, pkg := range load(t) {
		path := strings.TrimPrefix(pkg.Path(), module)
		if !slices.Contains(stable, path) {
			continue
		}
		file := filepath.Join("testdata", strings.ReplaceAll(path, "/", "_")+".txt")
		got := listing(pkg)
		if *update {
			ok(t, os.WriteFile(file, []byte(got), 0o644))
		}
		want, err := os.ReadFile(file)
		ok(t, err)
		for _, line := range difference(got, string(want)) {
			t.Errorf("%s is new in %s: see docs/compatibility.md, then make golden", line, path)
		}
		for _, line := range difference(string(want), got) {
			t.Errorf("%s is gone from %s: see docs/compatibility.md, then make golden", line, path)
		}
	}
}

// difference returns the lines of a that b does not have.
func difference(a, b string) (lines []string) {
	have := strings.Split(b, "\n")
	for _, line := range strings.Split(a, "\n") {
		if !slices.Contains(have, line) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// load returns the types that the stable packages, and those that they need, declare.
func load(t *testing.T) (pkgs []*types.Package) {
	t.Helper()
	args := []string{"list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap"}
	for _, path := range stable {
		args = append(args, module+path)
	}
	list := exec.Command("go", args...)
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	out, err := list.Output()
	ok(t, err)
	done := imports{known: map[string]*types.Package{"unsafe": types.Unsafe}}
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); { // dependencies come first
		var p struct {
			ImportPath, Dir string
			GoFiles         []string
			ImportMap       map[string]string
		}
		ok(t, d.Decode(&p))
		if done.known[p.ImportPath] != nil {
			continue
		}
		fset := token.NewFileSet()
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, 0)
			ok(t, err)
			files = append(files, f)
		}
		done.paths = p.ImportMap
		conf := types.Config{
			IgnoreFuncBodies: true, Importer: done, Sizes: types.SizesFor("gc", "amd64"),
			Error: func(error) {}, // of imports that only bodies need
		}
		pkg, _ := conf.Check(p.ImportPath, fset, files, nil)
		done.known[p.ImportPath] = pkg
		pkgs = append(pkgs, pkg)
	}
	return pkgs
}

// imports are packages whose types are known.
type imports struct {
	known map[string]*types.Package
	paths map[string]string // where an import path stands for another one
}

// Import implements types.Importer.
func (m imports) Import(path string) (*types.Package, error) {
	if p, ok := m.paths[path]; ok {
		path = p
	}
	if p := m.known[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s is not listed", path)
}

// listing returns a line for each thing that the package exports, in order.
func listing(pkg *types.Package) string {
	l := lister{pkg: pkg}
	for _, name := range pkg.Scope().Names() {
		if obj := pkg.Scope().Lookup(name); obj.Exported() {
			l.object(obj)
		}
	}
	return l.out.String()
}

type lister struct {
	pkg *types.Package
	out strings.Builder
}

func (l *lister) name(p *types.Package) string {
	if p == l.pkg {
		return ""
	}
	return p.Name()
}

func (l *lister) text(t types.Type) string { return types.TypeString(t, l.name) }

func (l *lister) object(obj types.Object) {
	switch o := obj.(type) {
	case *types.Const:
		fmt.Fprintf(&l.out, "const %s %s = %s\n", o.Name(), l.text(o.Type()), o.Val())
	case *types.Var:
		fmt.Fprintf(&l.out, "var %s %s\n", o.Name(), l.text(o.Type()))
	case *types.Func:
		fmt.Fprintf(&l.out, "func %s%s\n", o.Name(), l.signature(o))
	case *types.TypeName:
		l.typeName(o)
	}
}

func (l *lister) signature(f *types.Func) string {
	return strings.TrimPrefix(l.text(f.Signature()), "func")
}

// typeName lists a type with its exported fields and methods. Those of an alias are listed,
// too, unless they are in the file of another stable package.
func (l *lister) typeName(o *types.TypeName) {
	t := o.Type()
	if o.IsAlias() {
		t = types.Unalias(t)
		fmt.Fprintf(&l.out, "type %s = %s\n", o.Name(), l.text(t))
		if named, ok := t.(*types.Named); !ok || l.elsewhere(named.Obj().Pkg()) {
			return
		}
	}
	var params string
	if named, ok := t.(*types.Named); ok && named.TypeParams().Len() > 0 {
		var list []string
		for p := range named.TypeParams().TypeParams() {
			list = append(list, p.String()+" "+l.text(p.Constraint()))
		}
		params = "[" + strings.Join(list, ", ") + "]"
	}
	switch u := t.Underlying().(type) {
	case *types.Struct:
		fmt.Fprintf(&l.out, "type %s%s struct\n", o.Name(), params)
		for f := range u.Fields() {
			if f.Exported() {
				fmt.Fprintf(&l.out, "\t%s.%s %s\n", o.Name(), f.Name(), l.text(f.Type()))
			}
		}
	case *types.Interface:
		fmt.Fprintf(&l.out, "type %s%s interface\n", o.Name(), params)
		for m := range u.Methods() {
			if !m.Exported() {
				continue
			}
			fmt.Fprintf(&l.out, "\t%s.%s%s\n", o.Name(), m.Name(), l.signature(m))
		}
		return
	default:
		fmt.Fprintf(&l.out, "type %s%s %s\n", o.Name(), params, l.text(u))
	}
	for m := range types.NewMethodSet(types.NewPointer(t)).Methods() {
		if f := m.Obj().(*types.Func); f.Exported() {
			fmt.Fprintf(&l.out, "\t%s.%s%s\n", o.Name(), f.Name(), l.signature(f))
		}
	}
}

// elsewhere reports whether another golden file has the types of the package.
func (l *lister) elsewhere(p *types.Package) bool {
	return p != nil && p != l.pkg && slices.Contains(stable, strings.TrimPrefix(p.Path(), module))
}
