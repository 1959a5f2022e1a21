package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// flag matches what looks like a flag of the program in a text.
var flag = regexp.MustCompile("(?:^|[ (;,:\"'`])(?:--[a-z][a-z-]+|-(?:b|c|ctk|ctv|f|hf|m|md|n|ncmoe|ngl|np|o|t|ub|v)(?:[ ,.;:)]|$))")

// command matches a command line that a text gives whole.
var command = regexp.MustCompile("powerinfer [a-z]+ [^;,]*")

// named matches a setting.Setting.
var named = regexp.MustCompile(`^[^|]+\|[\w.]+$`)

// TestNoFlags: what the Go API links names no flag of the program in its texts. Errors that advise a setting hold a
// setting.Setting.
func TestNoFlags(t *testing.T) {
	// packages whose functions with such texts only the program calls, and files that hold other programs' flags
	others := []string{
		"internal/setting", "internal/convert", "internal/imatrix", "internal/server",
		"internal/compute/vulkan/shaders/manifest.go", // glslang's
		"internal/sample/number.go",                   // help of flags
		"internal/planner/experts.go",                 // llama.cpp's, in the names of its placements
		"internal/eval/sandbox/child_linux.go",        // Python's
		"internal/eval/sandbox/runner_linux.go",       // the same
	}
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{.ImportPath}} {{.Dir}}", module+"evaluate").Output()
	if err != nil {
		t.Fatal(err)
	}
	texts := 0
	for line := range strings.Lines(string(out)) {
		pkg, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest, ours := strings.CutPrefix(pkg+"/", module)
		if !ours {
			continue
		}
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			name := rest + file.Name()
			if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || slices.ContainsFunc(others, func(o string) bool { return name == o || strings.HasPrefix(name, o+"/") }) {
				continue
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, filepath.Join(dir, file.Name()), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				l, ok := n.(*ast.BasicLit)
				if !ok || l.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(l.Value)
				if texts++; err != nil {
					t.Error(err)
				}
				if named.MatchString(text) {
					return true
				}
				if found := flag.FindString(command.ReplaceAllString(text, "")); found != "" {
					t.Errorf("%s:%d: the text %.150q names the flag %q", name, set.Position(l.Pos()).Line, text, strings.TrimSpace(found))
				}
				return true
			})
		}
	}
	if texts < 1000 {
		t.Errorf("only %d texts were found", texts)
	}
}
