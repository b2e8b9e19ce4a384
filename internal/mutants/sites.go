package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// mutant is one change of one file.
type mutant struct {
	Pkg  string // as the go command names it: ./wal
	File string // relative to the module
	Line int
	Op   string // the operator
	Diff string // the lines before and after

	from, to int // the bytes of the file that text replaces
	text     string
}

// mutantsOf returns the mutants of a package, "./wal", or of some of its files,
// "./engine/plan/e*", in the order of the source.
func mutantsOf(ctx context.Context, arg string) ([]mutant, error) {
	pkg, glob := arg, "*"
	if strings.Contains(arg, "*") {
		pkg, glob = path.Dir(arg), path.Base(arg)
	}
	if pkg = path.Clean(pkg); pkg != "." {
		pkg = "./" + pkg
	}
	b, err := exec.CommandContext(ctx, "go", "list", "-json=GoFiles", pkg).Output()
	if err != nil {
		return nil, fmt.Errorf("list package %s: %w", pkg, err)
	}
	var list struct{ GoFiles []string }
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, err
	}
	var all []mutant
	for _, name := range list.GoFiles {
		if ok, err := path.Match(glob, name); err != nil || !ok {
			continue
		}
		file := path.Join(pkg, name)
		src, err := os.ReadFile(filepath.FromSlash(file))
		if err != nil {
			return nil, err
		}
		ms, err := mutantsIn(src)
		if err != nil {
			return nil, err
		}
		for i := range ms {
			ms[i].Pkg, ms[i].File = pkg, file
		}
		all = append(all, ms...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("nothing to change in %s", arg)
	}
	return all, nil
}

// draw returns the mutants in the order in which they are tried: the groups in turns, each
// shuffled with the seed. A group's order does not depend on the other groups.
func draw(groups [][]mutant, seed uint64) []mutant {
	var order []mutant
	longest := 0
	for _, g := range groups {
		h := fnv.New64a()
		h.Write([]byte(g[0].Pkg))
		rand.New(rand.NewPCG(seed, h.Sum64())).Shuffle(len(g), func(i, j int) {
			g[i], g[j] = g[j], g[i]
		})
		longest = max(longest, len(g))
	}
	for i := range longest {
		for _, g := range groups {
			if i < len(g) {
				order = append(order, g[i])
			}
		}
	}
	return order
}

// collector gathers the mutants of a file.
type collector struct {
	fset *token.FileSet
	src  []byte
	out  []mutant
}

// mutantsIn returns the mutants of a source file. Generated files have none, nor have methods
// String and Error, calls of a logger, and locks.
func mutantsIn(src []byte) ([]mutant, error) {
	c := &collector{fset: token.NewFileSet(), src: src}
	f, err := parser.ParseFile(c.fset, "", src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(f) {
		return nil, err
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Body != nil && (d.Recv == nil || name != "String" && name != "Error") {
				c.walk(d.Type, d.Body)
			}
		default:
			c.walk(nil, d)
		}
	}
	slices.SortStableFunc(c.out, func(a, b mutant) int { return cmp.Compare(a.from, b.from) })
	return c.out, nil
}

// walk applies the operators to what is inside n, which belongs to a function of type fn.
func (c *collector) walk(fn *ast.FuncType, n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			c.walk(n.Type, n.Body)
			return false
		case *ast.BlockStmt:
			c.drop(n.List)
		case *ast.CaseClause:
			c.drop(n.Body)
		case *ast.CommClause:
			c.drop(n.Body)
		case *ast.IfStmt:
			c.insert("negate", n.Cond)
		case *ast.ReturnStmt:
			c.swallow(fn, n)
		case *ast.BinaryExpr:
			c.binary(n)
		case *ast.CallExpr:
			return c.call(n)
		case *ast.BasicLit:
			if v, err := strconv.ParseInt(n.Value, 0, 63); err == nil && n.Kind == token.INT {
				c.replace("const", n.Pos(), n.End(), strconv.FormatInt(v+1, 10))
			}
		}
		return true
	})
}

// drop leaves out statements that have an effect and declare nothing.
func (c *collector) drop(list []ast.Stmt) {
	for _, s := range list {
		op := "drop"
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); ok && idle(call) {
				continue
			}
		case *ast.DeferStmt:
			if op = "defer"; idle(s.Call) {
				continue
			}
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE || !slices.ContainsFunc(s.Lhs, named) {
				continue
			}
		case *ast.IncDecStmt, *ast.BranchStmt:
		default:
			continue
		}
		c.replace(op, s.Pos(), s.End(), "")
	}
}

func named(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return !ok || id.Name != "_"
}

// idle reports whether no test of one run can miss a call: locks, logging, yields.
func idle(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch sel.Sel.Name {
	case "Lock", "Unlock", "RLock", "RUnlock", "Yield":
		return true
	}
	on, ok := sel.X.(*ast.SelectorExpr)
	return ok && on.Sel.Name == "Logger"
}

// swallow returns nil instead of an error.
func (c *collector) swallow(fn *ast.FuncType, r *ast.ReturnStmt) {
	if fn == nil || fn.Results == nil || len(r.Results) != fn.Results.NumFields() {
		return
	}
	typ, ok := fn.Results.List[len(fn.Results.List)-1].Type.(*ast.Ident)
	last := r.Results[len(r.Results)-1]
	if id, isName := last.(*ast.Ident); !ok || typ.Name != "error" || isName && id.Name == "nil" {
		return
	}
	c.replace("nilerr", last.Pos(), last.End(), "nil")
}

// swaps are the operators that take each other's place, with the name of the mutation.
var swaps = map[token.Token]struct {
	op   string
	with token.Token
}{
	token.LSS: {"boundary", token.LEQ}, token.LEQ: {"boundary", token.LSS},
	token.GTR: {"boundary", token.GEQ}, token.GEQ: {"boundary", token.GTR},
	token.LAND: {"logic", token.LOR}, token.LOR: {"logic", token.LAND},
}

func (c *collector) binary(n *ast.BinaryExpr) {
	if s, ok := swaps[n.Op]; ok {
		c.replace(s.op, n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), s.with.String())
	}
}

// call exchanges min and max; it reports whether the call has more to change.
func (c *collector) call(n *ast.CallExpr) bool {
	if id, ok := n.Fun.(*ast.Ident); ok {
		if with := map[string]string{"min": "max", "max": "min"}[id.Name]; with != "" {
			c.replace("minmax", id.Pos(), id.End(), with)
		}
	}
	return !idle(n)
}

// insert negates a condition.
func (c *collector) insert(op string, e ast.Expr) {
	from, to := c.offset(e.Pos()), c.offset(e.End())
	c.replace(op, e.Pos(), e.End(), "!("+string(c.src[from:to])+")")
}

func (c *collector) offset(p token.Pos) int { return c.fset.Position(p).Offset }

func (c *collector) replace(op string, p, end token.Pos, text string) {
	m := mutant{Op: op, Line: c.fset.Position(p).Line, text: text}
	m.from, m.to = c.offset(p), c.offset(end)
	first := bytes.LastIndexByte(c.src[:m.from], '\n') + 1
	last := m.to + bytes.IndexByte(append(c.src[m.to:len(c.src):len(c.src)], '\n'), '\n')
	m.Diff = lines("-", string(c.src[first:last])) +
		lines("+", string(c.src[first:m.from])+text+string(c.src[m.to:last]))
	c.out = append(c.out, m)
}

// lines puts the sign before every line of s that has something.
func lines(sign, s string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(s, "\n") {
		if strings.TrimSpace(line) != "" {
			b.WriteString(sign + line + "\n")
		}
	}
	return b.String()
}
