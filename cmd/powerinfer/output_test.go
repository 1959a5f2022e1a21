package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ownSequences are the files that may write escape sequences of their own to a terminal, by Styled; foreign text in
// them has passed terminal.Clean or a Cleaner.
var ownSequences = []string{"chat.go", "chat_answer.go", "chat_commands.go", "chat_editor.go", "chat_keyboard_unix.go", "chat_thought.go", "progress.go"}

// TestOneWriter: commands write to stdout and stderr, which clean what a terminal is shown, and to nothing that goes
// past these.
func TestOneWriter(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	forbidden := map[string][]string{
		"os":      {"Stdout", "Stderr", "NewFile"},
		"syscall": {"Stdout", "Stderr", "Write"},
		"unix":    {"Stdout", "Stderr", "Write"},
		"fmt":     {"Print", "Printf", "Println"},
		"log":     {"Print", "Printf", "Println", "Fatal", "Fatalf", "Fatalln", "Panic", "Panicf", "Panicln", "Default"},
		"slog":    {"Debug", "Info", "Warn", "Error", "Log", "Default"},
	}
	seen := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || name == "output.go" {
			continue
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
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
	}
	if _, err := os.Stat("output.go"); err != nil || seen == 0 {
		t.Errorf("%d places write escape sequences; %v", seen, err)
	}
}
