package tidy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

func TestDocumented(t *testing.T) { report(t, checkDocumented(loadTree(t))) }

func TestNoLeftovers(t *testing.T) { report(t, checkLeftovers(loadTree(t))) }

// checkDocumented wants a package comment in every package, and a comment that starts
// with the name on everything that is exported. The members of a commented group of
// constants or variables, struct fields and interface methods may rely on the
// comment of the whole, and generated code does without.
func checkDocumented(files tree) []finding {
	parsed, found := files.goFiles()
	commented := map[string]bool{}
	first := map[string]*goFile{}
	for _, g := range parsed {
		if strings.HasSuffix(g.ast.Name.Name, "_test") {
			continue
		}
		if first[g.dir()] == nil {
			first[g.dir()] = g
		}
		if g.ast.Doc != nil {
			commented[g.dir()] = true
			name, text := g.ast.Name.Name, g.ast.Doc.Text()
			if name != "main" && !strings.HasPrefix(text, "Package "+name+" ") {
				found = append(found,
					g.find(g.ast.Doc.Pos(), "package comment must start \"Package %s \"", name))
			}
		}
		if !g.isTest() && g.ast.Name.Name != "main" && !ast.IsGenerated(g.ast) {
			found = append(found, undocumented(g)...)
		}
	}
	for dir, g := range first {
		if !commented[dir] {
			found = append(found, finding{g.path, 0, "package " + dir + " has no package comment"})
		}
	}
	return found
}

func undocumented(g *goFile) []finding {
	var found []finding
	check := func(name *ast.Ident, doc *ast.CommentGroup) {
		if !name.IsExported() {
			return
		}
		if doc == nil {
			found = append(found, g.find(name.Pos(), "exported %s has no comment", name.Name))
		} else if !startsWithName(doc.Text(), name.Name) {
			found = append(found,
				g.find(doc.Pos(), "comment must start with the name %s", name.Name))
		}
	}
	for _, d := range g.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type)) {
				check(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					check(s.Name, either(s.Doc, d.Doc))
				case *ast.ValueSpec:
					for _, n := range s.Names {
						if n.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
							check(n, nil)
						}
					}
				}
			}
		}
	}
	return found
}

func either(a, b *ast.CommentGroup) *ast.CommentGroup {
	if a != nil {
		return a
	}
	return b
}

// startsWithName accepts "Name …", "A Name …" and "Deprecated: …".
func startsWithName(text, name string) bool {
	for _, article := range []string{"", "A ", "An ", "The "} {
		if rest, ok := strings.CutPrefix(text, article+name); ok {
			return rest == "" || !isIdentByte(rest[0])
		}
	}
	return strings.HasPrefix(text, "Deprecated:")
}

func isIdentByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// receiver returns the name of a receiver's type.
func receiver(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// markers are notes to oneself; work that is left belongs in an issue.
var markers = regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)

// checkLeftovers finds notes to oneself and code that was commented out.
func checkLeftovers(files tree) []finding {
	parsed, found := files.goFiles()
	for _, g := range parsed {
		for _, group := range g.ast.Comments {
			for _, c := range group.List {
				if m := markers.FindString(c.Text); m != "" {
					found = append(found, g.find(c.Pos(), "%s in a comment; open an issue", m))
				}
			}
			if isCode(group) {
				found = append(found, g.find(group.Pos(), "commented-out code"))
			}
		}
	}
	for _, ext := range []string{".sh", ".md"} {
		for _, name := range files.names(ext) {
			for i, line := range strings.Split(string(files[name]), "\n") {
				if m := markers.FindString(line); m != "" {
					found = append(found, finding{name, i + 1, m + " in a document; open an issue"})
				}
			}
		}
	}
	return found
}

// isCode reports whether a comment group, as a whole, is a list of Go statements of a
// kind that prose and formulas never are. Indented examples in doc comments come with
// prose around them, so they do not parse.
func isCode(group *ast.CommentGroup) bool {
	var body strings.Builder
	for _, c := range group.List {
		text, ok := strings.CutPrefix(c.Text, "//")
		if !ok {
			text = strings.TrimSuffix(strings.TrimPrefix(c.Text, "/*"), "*/")
		} else if strings.HasPrefix(text, "go:") || strings.HasPrefix(text, "+build") {
			return false
		}
		body.WriteString(text + "\n")
	}
	src := "package p\nfunc _() {\n" + body.String() + "\n}\n"
	f, err := parser.ParseFile(token.NewFileSet(), "", src, 0)
	if err != nil || len(f.Decls) != 1 {
		src = "package p\n" + body.String()
		f, err = parser.ParseFile(token.NewFileSet(), "", src, 0)
		return err == nil && len(f.Decls) > 0
	}
	for _, s := range f.Decls[0].(*ast.FuncDecl).Body.List {
		switch s := s.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt, *ast.DeferStmt, *ast.GoStmt,
			*ast.SwitchStmt, *ast.DeclStmt:
			return true
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				return true
			}
		case *ast.ReturnStmt:
			if len(s.Results) > 1 {
				return true
			}
		}
	}
	return false
}
