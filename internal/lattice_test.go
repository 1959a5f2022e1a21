// Package internal_test holds the house's rule: who may import whom.
package internal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/powerinfer-go/powerinfer/"

// floors are the allowed imports within the project, ground floor first. A package may import what its row names, and
// rows name only packages above them: imports point downward. A new package gets a row here.
var floors = []struct{ pkg, imports string }{
	{"internal/quant", ""},
	{"internal/tokenizer", ""},
	{"internal/sample", ""},
	{"internal/clock", ""},
	{"internal/hw", ""},
	{"internal/neuron", ""},
	{"internal/outfile", ""},
	{"internal/testenv", ""},
	{"internal/trace", "internal/clock"},
	{"demo", ""},
	{"internal/gguf", "internal/outfile internal/quant"},
	{"internal/compute", "internal/quant"},
	{"internal/placement", "internal/neuron"},
	{"internal/portrait", "internal/neuron"},
	{"internal/prepared", "internal/gguf internal/neuron internal/quant"},
	{"internal/compute/ref", "internal/compute internal/quant"},
	{"internal/compute/devicetest", "internal/compute internal/compute/ref internal/quant"},
	{"internal/compute/cpu/pool", ""},
	{"internal/compute/cpu/kernel", "internal/compute internal/quant"},
	{"internal/compute/cpu/gemm", "internal/compute/cpu/pool"},
	{"internal/compute/cpu", "internal/compute internal/compute/cpu/kernel internal/compute/cpu/pool internal/quant"},
	{"internal/measure", "internal/clock internal/compute internal/compute/cpu internal/hw internal/outfile internal/placement internal/quant"},
	{"internal/compute/hybrid", "internal/compute internal/quant internal/trace"},
	{"internal/compute/vulkan/vk", ""},
	{"internal/compute/vulkan/shaders", ""},
	{"internal/compute/vulkan/shaders/compile", "internal/compute/vulkan/shaders"},
	{"internal/compute/vulkan", "internal/clock internal/compute internal/compute/vulkan/shaders internal/compute/vulkan/vk internal/quant internal/trace"},
	{"internal/train", "internal/compute/cpu/gemm internal/compute/cpu/kernel internal/compute/cpu/pool internal/quant"},
	{"internal/model", "internal/compute internal/gguf internal/placement internal/prepared internal/quant internal/tokenizer"},
	{"internal/blueprint", "internal/compute internal/compute/hybrid internal/gguf internal/model internal/neuron internal/placement internal/prepared internal/quant"},
	{"internal/engine", "internal/clock internal/compute internal/compute/cpu internal/compute/hybrid internal/compute/vulkan internal/gguf internal/hw internal/model internal/placement internal/sample internal/tokenizer internal/trace"},
	{"internal/convert", "internal/gguf internal/neuron internal/prepared internal/quant internal/tokenizer"},
	{"internal/eval", "internal/engine internal/outfile"},
	{"internal/bench", "internal/clock internal/engine internal/gguf internal/model"},
	{"internal/synth", "internal/gguf internal/neuron internal/quant internal/tokenizer"},
	{"internal/synth/synthtest", "internal/gguf internal/synth"},
	{"bench/synth", "internal/quant internal/synth"},
	{"bench/gpucheck", "internal/bench internal/blueprint internal/clock internal/compute internal/compute/vulkan internal/engine internal/gguf internal/hw internal/measure internal/model internal/neuron internal/outfile internal/placement internal/quant internal/synth internal/trace"},
	{"scripts/bcryptprimitives", ""},
	{"bench/compare", "internal/bench internal/measure"},
	{"internal/prepare", "internal/clock internal/compute internal/compute/cpu internal/compute/cpu/gemm internal/compute/cpu/pool internal/engine internal/eval internal/gguf internal/hw internal/model internal/neuron internal/outfile internal/prepared internal/quant internal/sample internal/tokenizer internal/train"},
	{"cmd/powerinfer", "demo internal/bench internal/blueprint internal/compute internal/compute/hybrid internal/compute/vulkan internal/convert internal/engine internal/eval internal/gguf internal/hw internal/measure internal/model internal/neuron internal/outfile internal/placement internal/portrait internal/prepare internal/prepared internal/quant internal/sample internal/tokenizer internal/trace"},
}

func TestImportsPointDownward(t *testing.T) {
	allowed := map[string][]string{}
	for _, f := range floors {
		for _, i := range strings.Fields(f.imports) {
			if _, ok := allowed[i]; !ok {
				t.Errorf("the table lets %s import %s, which is not below it", f.pkg, i)
			}
		}
		allowed[f.pkg] = strings.Fields(f.imports)
	}
	files := 0
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "gen" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		files++
		pkg := path.Dir(filepath.ToSlash(strings.TrimPrefix(name, ".."+string(filepath.Separator))))
		rows, ok := allowed[pkg]
		if !ok {
			t.Errorf("package %s has no row in the table of floors", pkg)
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range f.Imports {
			target, _ := strconv.Unquote(i.Path.Value)
			if rest, ours := strings.CutPrefix(target, module); ours && !slices.Contains(rows, rest) {
				t.Errorf("%s imports %s, which the table of floors does not allow", name, rest)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Fatalf("only %d files were looked at", files)
	}
}
