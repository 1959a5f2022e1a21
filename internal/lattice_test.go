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
	{"internal/setting", ""},
	{"internal/quant", ""},
	{"internal/tokenizer/regex", ""},
	{"internal/tokenizer", "internal/tokenizer/regex"},
	{"internal/sample", "internal/setting"},
	{"internal/grammar", ""},
	{"internal/fault", ""},
	{"internal/monotime", ""},
	{"internal/hw", ""},
	{"internal/kvcache", ""},
	{"internal/neuron", ""},
	{"internal/residency", ""},
	{"internal/speculate", ""},
	{"internal/filekind", ""},
	{"internal/picture", ""},
	{"internal/wholefile", ""},
	{"internal/atomicfile", "internal/hw internal/wholefile"},
	{"internal/folderlock", ""},
	{"internal/disk", "internal/monotime"},
	{"internal/testenv", ""},
	{"internal/testenv/faults", ""},
	{"internal/memlock", "internal/setting"},
	{"internal/trace", "internal/monotime"},
	{"internal/chat/jinja", ""},
	{"internal/markdown", ""},
	{"internal/terminal", ""},
	{"demo", ""},
	{"internal/gguf", "internal/atomicfile internal/disk internal/filekind internal/memlock internal/monotime internal/quant internal/fault"},
	{"demo/demotest", "demo internal/gguf internal/quant internal/testenv"},
	{"internal/imatrix", "internal/atomicfile internal/gguf internal/quant internal/wholefile"},
	{"internal/hub/hubtest", ""},
	{"internal/hub", "internal/gguf internal/hw internal/setting internal/wholefile"},
	{"internal/chat", "internal/chat/jinja internal/gguf internal/picture internal/setting"},
	{"internal/chat/answer", "internal/grammar"},
	{"internal/compute", "internal/disk internal/monotime internal/quant internal/residency"},
	{"internal/kvfile", "internal/compute internal/kvcache"},
	{"internal/convert/lineage", "internal/compute internal/gguf"},
	{"internal/placement", "internal/compute internal/neuron internal/residency"},
	{"internal/neuronreport", "internal/neuron"},
	{"internal/prepared", "internal/gguf internal/neuron internal/quant internal/fault"},
	{"internal/bundle", "internal/atomicfile internal/compute internal/disk internal/fault internal/gguf internal/hw internal/prepared internal/quant"},
	{"internal/compute/ref", "internal/compute internal/quant"},
	{"internal/compute/devicetest", "internal/compute internal/compute/ref internal/quant internal/testenv"},
	{"internal/compute/cpu/pool", ""},
	{"internal/compute/cpu/layout", "internal/quant"},
	{"internal/compute/cpu/emulate", ""},
	{"internal/compute/cpu/kernel", "internal/compute internal/compute/cpu/layout internal/hw internal/quant"},
	{"internal/compute/cpu/gemm", "internal/compute/cpu/pool"},
	{"internal/compute/cpu", "internal/compute internal/compute/cpu/kernel internal/compute/cpu/layout internal/compute/cpu/pool internal/disk internal/trace internal/memlock internal/monotime internal/quant internal/residency internal/setting internal/fault"},
	{"internal/measure", "internal/monotime internal/compute internal/compute/cpu internal/hw internal/atomicfile internal/placement internal/quant internal/disk internal/wholefile"},
	{"internal/measure/measuretest", "internal/measure internal/placement"},
	{"internal/compute/hybrid", "internal/compute internal/fault internal/monotime internal/quant internal/residency internal/trace"},
	{"internal/compute/vulkan/vk", ""},
	{"internal/compute/vulkan/shaders", "internal/quant"},
	{"internal/compute/vulkan/shaders/compile", "internal/compute/vulkan/shaders"},
	{"internal/compute/vulkan/driver", "internal/compute/vulkan/shaders internal/compute/vulkan/vk internal/trace internal/setting internal/wholefile"},
	{"internal/compute/vulkan", "internal/compute/vulkan/driver internal/atomicfile internal/monotime internal/compute internal/compute/vulkan/shaders internal/compute/vulkan/vk internal/quant internal/trace internal/setting internal/fault"},
	{"internal/train", "internal/compute/cpu/gemm internal/compute/cpu/kernel internal/compute/cpu/pool internal/quant"},
	{"internal/nn", "internal/bundle internal/compute internal/gguf internal/quant internal/setting"},
	{"internal/family", "internal/nn internal/compute"},
	{"internal/vision/tower", "internal/nn internal/compute internal/picture"},
	{"internal/model", "internal/bundle internal/nn internal/compute internal/gguf internal/neuron internal/prepared internal/quant internal/tokenizer internal/setting internal/fault internal/family"},
	{"internal/vision", "internal/compute internal/fault internal/gguf internal/nn internal/picture internal/setting internal/vision/tower"},
	{"internal/imatrix/collect", "internal/compute internal/compute/cpu internal/compute/cpu/layout internal/gguf internal/hw internal/imatrix internal/model internal/atomicfile"},
	{"internal/convert/lineage", "internal/compute"},
	{"internal/convert/checkpoint", "internal/filekind internal/quant internal/wholefile"},
	{"internal/convert/checkpoint/checkpointtest", "internal/quant"},
	{"internal/convert", "internal/convert/checkpoint internal/convert/lineage internal/family internal/gguf internal/imatrix internal/neuron internal/nn internal/prepared internal/quant internal/tokenizer internal/fault"},
	{"internal/modelcost", "internal/compute internal/convert internal/family internal/gguf internal/model internal/nn internal/neuron internal/placement internal/prepared internal/quant internal/setting"},
	{"internal/planner", "internal/disk internal/compute internal/compute/cpu internal/compute/hybrid internal/compute/vulkan internal/gguf internal/hw internal/measure internal/model internal/modelcost internal/placement internal/quant internal/residency internal/trace internal/setting"},
	{"internal/engine", "internal/bundle internal/vision internal/atomicfile internal/monotime internal/compute internal/compute/cpu/layout internal/disk internal/gguf internal/hw internal/kvcache internal/kvfile internal/model internal/nn internal/placement internal/sample internal/speculate internal/tokenizer internal/trace internal/setting internal/fault"},
	{"internal/eval/task", "internal/setting internal/atomicfile internal/wholefile"},
	{"internal/eval/sandbox", "internal/eval/task"},
	{"internal/eval", "internal/engine internal/atomicfile internal/eval/task internal/tokenizer internal/setting"},
	{"internal/bench", "internal/monotime internal/compute internal/engine internal/gguf internal/model internal/sample"},
	{"internal/synth", "internal/compute internal/convert/lineage internal/family internal/gguf internal/neuron internal/nn internal/prepared internal/quant internal/tokenizer"},
	{"internal/synth/synthtest", "internal/gguf internal/quant internal/synth"},
	{"internal/vision/visiontest", "internal/gguf internal/picture internal/quant internal/synth internal/tokenizer"},
	{"bench/synth", "internal/quant internal/synth"},
	{"bench/visiontest", "internal/vision/visiontest"},
	{"bench/experts", "internal/compute internal/compute/cpu internal/gguf internal/model internal/modelcost internal/placement internal/residency"},
	{"bench/families", "internal/convert internal/convert/lineage internal/gguf internal/quant internal/synth"},
	{"bench/record", "internal/atomicfile internal/hw internal/quant internal/synth"},
	{"bench/checkup", "internal/atomicfile internal/hw"},
	{"bench/gpucheck", "bench/checkup internal/bench internal/modelcost internal/monotime internal/compute internal/compute/cpu internal/compute/hybrid internal/compute/vulkan internal/engine internal/gguf internal/hw internal/measure internal/model internal/neuron internal/atomicfile internal/picture internal/placement internal/quant internal/synth internal/trace internal/planner internal/vision internal/vision/tower internal/vision/visiontest"},
	{"scripts/bcryptprimitives", ""},
	{"bench/rounds", "internal/bench internal/gguf"},
	{"bench/compare", "bench/rounds internal/hw internal/measure"},
	{"bench/cpucheck", "bench/checkup bench/rounds internal/compute/cpu/kernel internal/hw internal/measure internal/quant internal/synth"},
	{"bench/load", ""},
	{"bench/drafts", "internal/engine internal/gguf internal/model internal/planner internal/sample"},
	{"internal/prepare", "internal/bundle internal/folderlock internal/monotime internal/compute internal/compute/cpu internal/compute/cpu/pool internal/engine internal/eval internal/gguf internal/hw internal/model internal/neuron internal/atomicfile internal/prepared internal/quant internal/sample internal/tokenizer internal/train internal/planner internal/fault internal/wholefile"},
	{"internal/session", "internal/compute internal/family internal/hub internal/vision internal/vision/tower internal/convert internal/engine internal/gguf internal/grammar internal/hw internal/model internal/modelcost internal/neuron internal/placement internal/planner internal/prepared internal/sample internal/setting internal/tokenizer internal/fault"},
	{"internal/sweep", "internal/atomicfile internal/bench internal/compute internal/engine internal/eval internal/eval/sandbox internal/folderlock internal/sample internal/eval/task internal/gguf internal/hw internal/model internal/modelcost internal/monotime internal/neuron internal/placement internal/planner internal/prepared internal/session internal/tokenizer internal/wholefile"},
	{"internal/server", "internal/atomicfile internal/chat internal/chat/answer internal/engine internal/grammar internal/hub internal/picture internal/planner internal/sample internal/session internal/vision internal/fault internal/wholefile"},
	{"internal/server/anthropic", "internal/chat internal/chat/answer internal/engine internal/server"},
	{"internal/server/llamacpp", "internal/engine internal/hub internal/server"},
	{"internal/server/ollama", "internal/chat internal/chat/answer internal/engine internal/gguf internal/hub internal/sample internal/server"},
	{"internal/server/openai", "internal/chat internal/chat/answer internal/engine internal/server"},
	{"internal/server/responses", "internal/chat internal/chat/answer internal/engine internal/server"},
	{"internal/server/library", "internal/server internal/session"},
	{"internal/server/page", ""},
	{"internal/server/page/pack", ""},
	{"internal/server/openapi", "internal/server"},
	{"internal/server/neurons", "internal/compute internal/engine internal/model internal/server"},
	{"internal/server/metrics", "internal/compute internal/engine internal/model internal/server"},
	{".", "internal/vision internal/picture internal/bench internal/chat internal/chat/answer internal/compute internal/engine internal/gguf internal/grammar internal/hub internal/model internal/planner internal/sample internal/session internal/trace internal/setting internal/fault"},
	{"evaluate", ". internal/bench internal/engine internal/eval internal/eval/sandbox internal/eval/task internal/session internal/setting"},
	{"cmd/powerinfer/internal/quantity", ""},
	{"cmd/powerinfer/internal/screen", "cmd/powerinfer/internal/quantity internal/setting internal/terminal"},
	{"cmd/powerinfer/flags", ". cmd/powerinfer/internal/screen internal/compute internal/engine internal/model internal/modelcost internal/planner internal/sample internal/session"},
	{"cmd/powerinfer/internal/editor", "cmd/powerinfer/internal/quantity cmd/powerinfer/internal/screen internal/terminal"},
	{"cmd/powerinfer/internal/help", "cmd/powerinfer/flags cmd/powerinfer/internal/screen"},
	{"cmd/powerinfer/internal/planreport", "cmd/powerinfer/internal/quantity cmd/powerinfer/internal/screen internal/engine internal/model internal/modelcost internal/placement internal/planner internal/session"},
	{"cmd/powerinfer/internal/progress", "cmd/powerinfer/internal/quantity cmd/powerinfer/internal/screen internal/terminal"},
	{"cmd/powerinfer/internal/attachment", ". cmd/powerinfer/internal/quantity internal/chat internal/wholefile"},
	{"cmd/powerinfer/internal/client", "internal/wholefile"},
	{"cmd/powerinfer/internal/conversation", ". cmd/powerinfer/internal/attachment internal/atomicfile internal/chat internal/wholefile"},
	{"cmd/powerinfer/internal/diagnosis", "cmd/powerinfer/internal/quantity cmd/powerinfer/internal/screen internal/compute/vulkan internal/hw internal/measure internal/modelcost internal/placement internal/planner"},
	{"cmd/powerinfer/internal/peers", ""},
	{"cmd/powerinfer/internal/reply", "cmd/powerinfer/internal/screen internal/chat/answer internal/markdown internal/terminal"},
	{"cmd/powerinfer/internal/summary", ". cmd/powerinfer/internal/progress cmd/powerinfer/internal/quantity cmd/powerinfer/internal/screen internal/engine"},
	{"cmd/powerinfer/internal/serving", "cmd/powerinfer/internal/screen internal/atomicfile internal/gguf internal/hub internal/hw internal/server internal/server/anthropic internal/server/library internal/server/llamacpp internal/server/metrics internal/server/neurons internal/server/ollama internal/server/openai internal/server/openapi internal/server/page internal/server/responses internal/session internal/terminal"},
	{"cmd/powerinfer/internal/batchfile", ". cmd/powerinfer/flags cmd/powerinfer/internal/screen internal/atomicfile internal/sample"},
	{"cmd/powerinfer/internal/modelname", "evaluate cmd/powerinfer/flags cmd/powerinfer/internal/peers cmd/powerinfer/internal/progress cmd/powerinfer/internal/screen internal/hub internal/wholefile"},
	{"cmd/powerinfer/internal/shortlist", "cmd/powerinfer/internal/quantity internal/hub internal/planner"},
	{"cmd/powerinfer/internal/talk", ". cmd/powerinfer/flags cmd/powerinfer/internal/attachment cmd/powerinfer/internal/conversation cmd/powerinfer/internal/editor cmd/powerinfer/internal/peers cmd/powerinfer/internal/progress cmd/powerinfer/internal/quantity cmd/powerinfer/internal/reply cmd/powerinfer/internal/screen cmd/powerinfer/internal/summary internal/chat internal/chat/answer internal/markdown internal/terminal internal/wholefile"},
	{"cmd/powerinfer", ". cmd/powerinfer/flags cmd/powerinfer/internal/attachment cmd/powerinfer/internal/batchfile cmd/powerinfer/internal/client cmd/powerinfer/internal/diagnosis cmd/powerinfer/internal/help cmd/powerinfer/internal/modelname cmd/powerinfer/internal/peers cmd/powerinfer/internal/planreport cmd/powerinfer/internal/progress cmd/powerinfer/internal/quantity cmd/powerinfer/internal/screen cmd/powerinfer/internal/serving cmd/powerinfer/internal/shortlist cmd/powerinfer/internal/summary cmd/powerinfer/internal/talk demo evaluate internal/atomicfile internal/bench internal/chat internal/chat/answer internal/compute/vulkan internal/convert internal/engine internal/fault internal/gguf internal/hub internal/hw internal/imatrix/collect internal/measure internal/model internal/modelcost internal/neuronreport internal/placement internal/planner internal/prepare internal/prepared internal/sample internal/server internal/server/library internal/session internal/setting internal/sweep internal/wholefile"},
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
		if d.IsDir() && (d.Name() == "gen" || d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
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
			rest, ours := strings.CutPrefix(target, module)
			if target+"/" == module {
				rest, ours = ".", true
			}
			if ours && !slices.Contains(rows, rest) {
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

// mostForCommand bounds the row of cmd/powerinfer, network APIs, files and terminals aside: what commands need of an open
// model belongs to the root package.
const mostForCommand = 25

func TestCommandIsThin(t *testing.T) {
	for _, f := range floors {
		if f.pkg != "cmd/powerinfer" {
			continue
		}
		n := 0
		for _, i := range strings.Fields(f.imports) {
			aside := strings.HasPrefix(i, "internal/server") || slices.Contains([]string{"internal/fault", "internal/terminal", "internal/wholefile"}, i)
			if strings.HasPrefix(i, "internal/") && !aside {
				n++
			}
		}
		if n > mostForCommand {
			t.Errorf("cmd/powerinfer may import %d internal packages besides the server's, more than %d; see whether the root package can offer what it needs", n, mostForCommand)
		}
	}
}
