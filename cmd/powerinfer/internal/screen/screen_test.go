package screen

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

// ownSequences are the files that may write escape sequences to a terminal, by Styled. Foreign text in them has passed
// terminal.Clean or a Cleaner.
var ownSequences = []string{"internal/talk/talk.go", "internal/talk/commands.go", "internal/editor/editor.go", "internal/editor/keyboard_unix.go", "internal/progress/progress.go", "internal/reply/reply.go"}

// TestOneWriter: commands write only to Out and Err, which clean text for terminals.
func TestOneWriter(t *testing.T) {
	forbidden := map[string][]string{
		"os":      {"Stdout", "Stderr", "NewFile"},
		"syscall": {"Stdout", "Stderr", "Write"},
		"unix":    {"Stdout", "Stderr", "Write"},
		"fmt":     {"Print", "Printf", "Println"},
		"log":     {"Print", "Printf", "Println", "Fatal", "Fatalf", "Fatalln", "Panic", "Panicf", "Panicln", "Default"},
		"slog":    {"Debug", "Info", "Warn", "Error", "Log", "Default"},
	}
	const command = "../.." // the command's folder
	seen := 0
	err := filepath.WalkDir(command, func(path string, d fs.DirEntry, err error) error {
		name := filepath.ToSlash(strings.TrimPrefix(path, filepath.FromSlash(command)+string(filepath.Separator)))
		if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || name == "internal/screen/screen.go" {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if id, ok := call.Fun.(*ast.Ident); ok && (id.Name == "print" || id.Name == "println") {
					t.Errorf("%s: %s goes past stdout and stderr", files.Position(n.Pos()), id.Name)
				}
			}
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if id, ok := s.X.(*ast.Ident); ok && slices.Contains(forbidden[id.Name], s.Sel.Name) {
				t.Errorf("%s: %s.%s goes past stdout and stderr", files.Position(n.Pos()), id.Name, s.Sel.Name)
			}
			if s.Sel.Name == "Styled" {
				seen++
				if !slices.Contains(ownSequences, name) {
					t.Errorf("%s: no sequences of this file's own are known", files.Position(n.Pos()))
				}
			}
			return true
		})
		return nil
	})
	if err != nil || seen == 0 {
		t.Errorf("%d places write escape sequences; %v", seen, err)
	}
}

// TestBroken: lines end between words, and a word longer than a line stays whole.
func TestBroken(t *testing.T) {
	for _, k := range []struct {
		text, indent string
		width        int
		want         string
	}{
		{"one two three", "", 7, "one two\nthree"},
		{"one two three", "", 0, "one two three"},
		{"one two three", "  ", 9, "one two\n  three"},
		{"one two three", "     ", 8, "one two\nthree"},
		{"incomprehensible", "", 5, "incomprehensible"},
		{"日本 語", "", 5, "日本\n語"},
	} {
		if got := Broken(k.text, k.indent, k.width); got != k.want {
			t.Errorf("%q in %d columns: %q, not %q", k.text, k.width, got, k.want)
		}
	}
}
