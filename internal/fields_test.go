package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// mostFields bounds the fields of a struct that describes a model, one field for each name.
const mostFields = 25

// Structs that describe models have few fields, so that readers see them at a glance. Objects of foreign formats are
// exempt.
func TestModelsAreDescribedBriefly(t *testing.T) {
	foreign := map[string]bool{"Component": true} // of tokenizer.json
	files, structs := token.NewFileSet(), 0
	for _, dir := range []string{"nn", "family", "model", "modelcost", "convert", "synth", "tokenizer", "prepared"} {
		err := fs.WalkDir(os.DirFS(dir), ".", func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(files, dir+"/"+name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				spec, _ := n.(*ast.TypeSpec)
				if spec == nil {
					return true
				}
				if s, ok := spec.Type.(*ast.StructType); ok && !foreign[spec.Name.Name] {
					structs++
					if n := s.Fields.NumFields(); n > mostFields {
						t.Errorf("%s: %s has %d fields, more than %d: divide it by meaning", files.Position(spec.Pos()), spec.Name.Name, n, mostFields)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if structs < 100 {
		t.Errorf("%d structs were found", structs)
	}
}
