package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ownFiles are the files of the program that read what this program wrote, or the system, whole: nobody gives these
// names to it.
var ownFiles = []string{
	"internal/compute/vulkan/driver/cache.go",         // pipelines of a driver
	"internal/compute/vulkan/shaders/manifest.go",     // embedded
	"internal/compute/vulkan/shaders/compile/main.go", // of the compiler
	"internal/folderlock/folderlock.go",               // the number of a process
	"internal/hw/cgroup_linux.go",                     // the system
	"internal/prepare/work.go",                        // of a work folder
	"internal/server/page/pack/main.go",               // of the build of the page
	"internal/synth/synthtest/synthtest.go",           // tests
	"internal/testenv/testenv.go",                     // tests
	"internal/testenv/faults/faults.go",               // the system, for tests
}

// TestWholeFilesAreBounded: what people name is read by package wholefile, and streams up to a limit, so that nothing
// that never ends takes all memory.
func TestWholeFilesAreBounded(t *testing.T) {
	for _, root := range []string{"../cmd", ".", "../evaluate"} {
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules"):
				return filepath.SkipDir
			case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
				return nil
			}
			path := filepath.ToSlash(filepath.Join("internal", name))
			if slices.Contains(ownFiles, path) {
				return nil
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, name, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				switch called(call) {
				case "os.ReadFile", "fs.ReadFile":
					t.Errorf("%s: read what a person may name with wholefile.Read", files.Position(n.Pos()))
				case "io.ReadAll":
					inner, _ := call.Args[0].(*ast.CallExpr)
					literal, _ := call.Args[0].(*ast.CompositeLit) // a reader of this project's that counts
					if literal == nil && (inner == nil || called(inner) != "io.LimitReader" && called(inner) != "http.MaxBytesReader") {
						t.Errorf("%s: read at most as much as io.LimitReader lets through", files.Position(n.Pos()))
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
}

// called returns the name of the package's function that is called, as io.ReadAll.
func called(c *ast.CallExpr) string {
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	id, ok := s.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return id.Name + "." + s.Sel.Name
}
