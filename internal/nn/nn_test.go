package nn_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/family"
)

// TestNoModels: nothing in the package is named after a model, neither declarations nor comments. They may name
// llama.cpp and papers.
func TestNoModels(t *testing.T) {
	names := map[string]bool{}
	for _, name := range family.Names() {
		lineage, _, _ := strings.Cut(name, "-")
		if lineage = strings.TrimRight(lineage, "0123456789_"); len(lineage) > 3 && lineage != "mamba" && lineage != "step" && lineage != "deci" { // a layer, what a pass computes, and the beginning of words
			names[lineage] = true
		}
	}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range files {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		check := func(at token.Pos, text string) {
			text = strings.ReplaceAll(text, "llama.cpp", "")
			if strings.HasPrefix(text, "// Source") {
				return
			}
			for model := range names {
				if strings.Contains(strings.ToLower(text), model) {
					t.Errorf("%s: %q is named after %s", set.Position(at), text, model)
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				check(id.Pos(), id.Name)
			}
			return true
		})
		for _, group := range f.Comments {
			for _, c := range group.List {
				check(c.Pos(), c.Text)
			}
		}
	}
}
