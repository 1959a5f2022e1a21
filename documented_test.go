package powerinfer

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "write the fields of structs into their aliases' comments anew")

// columns is the width of comments.
const columns = 120

// TestFieldsAreDocumented: the comment of an alias of an internal struct lists the struct's fields with their comments,
// because go doc does not show them.
func TestFieldsAreDocumented(t *testing.T) {
	aliases := map[string]string{} // by their types, such as engine.Limits
	files := map[string]*ast.File{}
	set := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = f
		eachAlias(f, func(s *ast.TypeSpec, _ *ast.CommentGroup) { aliases[types.ExprString(s.Type)] = s.Name.Name })
	}
	for name, f := range files {
		var edits []func(text string) string
		eachAlias(f, func(s *ast.TypeSpec, doc *ast.CommentGroup) {
			of, ok := s.Type.(*ast.SelectorExpr)
			if !ok {
				return
			}
			fields := fieldsOf(t, importOf(f, of.X.(*ast.Ident).Name), of.Sel.Name, aliases)
			if fields == nil { // not a struct, or without fields for users
				return
			}
			indent := "// "
			if set.Position(doc.Pos()).Column > 1 {
				indent = "\t// "
			}
			have := doc.Text()
			said, _, _ := strings.Cut(have, "\n\n  - ")
			comment := strings.TrimSpace(said) + "\n\n" + listed(fields, columns-len(strings.ReplaceAll(indent, "\t", "    ")))
			if have == comment {
				return
			}
			if !*update {
				t.Errorf("%s: the comment of %s does not list its fields as they are: go test -run TestFieldsAreDocumented . -update", name, s.Name.Name)
				return
			}
			from, to := set.Position(doc.Pos()).Offset, set.Position(doc.End()).Offset
			edits = append(edits, func(text string) string {
				lines := indent + strings.ReplaceAll(strings.TrimSpace(comment), "\n", "\n"+indent)
				lines = regexp.MustCompile(`(?m)[ \t]+$`).ReplaceAllString(lines, "")
				return text[:from] + strings.TrimPrefix(lines, "\t") + text[to:]
			})
		})
		if len(edits) == 0 {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		for _, edit := range slices.Backward(edits) {
			text = edit(text)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// eachAlias calls do for every exported alias of a file, with its comment.
func eachAlias(f *ast.File, do func(s *ast.TypeSpec, doc *ast.CommentGroup)) {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, spec := range g.Specs {
			s := spec.(*ast.TypeSpec)
			doc := s.Doc
			if doc == nil {
				doc = g.Doc
			}
			if s.Assign.IsValid() && s.Name.IsExported() {
				do(s, doc)
			}
		}
	}
}

// importOf returns the folder of the package that a file imports by a name.
func importOf(f *ast.File, name string) string {
	for _, i := range f.Imports {
		path := strings.Trim(i.Path.Value, `"`)
		if i.Name == nil && strings.HasSuffix(path, "/"+name) {
			return strings.TrimPrefix(path, "github.com/powerinfer-go/powerinfer/")
		}
	}
	return ""
}

// fieldsOf returns the exported fields of a struct, each with its name, type and comment in a line; nil if the type is
// not a struct. Types have their names in this package.
func fieldsOf(t *testing.T, folder, name string, aliases map[string]string) (out []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || folder == "" {
		t.Fatalf("no package in %q: %v", folder, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.TypeSpec)
			if !ok || s.Name.Name != name {
				return true
			}
			if q, ok := s.Type.(*ast.SelectorExpr); ok { // an alias, too
				out = fieldsOf(t, importOf(f, q.X.(*ast.Ident).Name), q.Sel.Name, aliases)
			}
			of, ok := s.Type.(*ast.StructType)
			if !ok {
				return false
			}
			for _, field := range of.Fields.List {
				typ := types.ExprString(field.Type)
				if len(field.Names) == 0 { // its own fields are fields of the struct
					pkg, inner := folder, typ
					if q, ok := field.Type.(*ast.SelectorExpr); ok {
						pkg, inner = importOf(f, q.X.(*ast.Ident).Name), q.Sel.Name
					}
					out = append(out, fieldsOf(t, pkg, inner, aliases)...)
					continue
				}
				var shown []string
				for _, n := range field.Names {
					if n.IsExported() {
						shown = append(shown, n.Name)
					}
				}
				typ = known(typ, f.Name.Name, aliases)
				hidden := slices.ContainsFunc(qualified.FindAllStringSubmatch(typ, -1), func(m []string) bool {
					return strings.HasPrefix(importOf(f, m[1]), "internal/")
				})
				if shown == nil || hidden { // users cannot name its type
					continue
				}
				line := strings.Join(shown, ", ") + " " + typ
				said := strings.Join(strings.Fields(field.Doc.Text()+" "+field.Comment.Text()), " ")
				if said != "" {
					line += ": " + said
				}
				out = append(out, line)
			}
			return false
		})
	}
	return out
}

// qualified matches a type of another package.
var qualified = regexp.MustCompile(`\b([a-z]\w*)\.[A-Z]`)

// known returns a type as this package names it.
func known(typ, pkg string, aliases map[string]string) string {
	return regexp.MustCompile(`(\w+\.)?\b[A-Z]\w*`).ReplaceAllStringFunc(typ, func(name string) string {
		qualified := name
		if !strings.Contains(name, ".") {
			qualified = pkg + "." + name
		}
		if alias := aliases[qualified]; alias != "" {
			return alias
		}
		return name
	})
}

// listed returns fields as a list in a comment, in lines of at most so many columns.
func listed(fields []string, width int) string {
	var b strings.Builder
	for _, f := range fields {
		line := "  -"
		for _, word := range strings.Fields(f) {
			if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
				b.WriteString(line + "\n")
				line = "   "
			}
			line += " " + word
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
