package planner

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/measure"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
)

var _ engine.Devices = (*Planner)(nil)

// planned returns a planner for six layers of a 7B model and discrete GPUs of this machine with this many free bytes
// each, numbered 3, 5, …. It also returns the planner's messages.
func planned(t *testing.T, free int64, gpus int, o Options) (*Planner, *[]string) {
	t.Helper()
	shape, err := modelcost.Describe("llama-7b,type=q4_0,layers=6")
	if err != nil {
		t.Fatal(err)
	}
	figures := measure.Machine{Cores: 4, RAM: []measure.RAM{{Threads: 4, Stream: 40e9}}}
	var infos []vulkan.Info
	for j := range gpus {
		name := fmt.Sprint("GPU ", j)
		infos = append(infos, vulkan.Info{Index: 3 + 2*j, Name: name, Kind: vulkan.Discrete, Free: free})
		figures.GPUs = append(figures.GPUs, measure.GPU{ID: measure.ID{Name: name}, Read: 400e9, Upload: 10e9, Download: 10e9, HandOff: 40e-6})
	}
	told := &[]string{}
	o.Notice = func(s string) { *told = append(*told, s) }
	return With(On(figures, infos), shape.Cost(4096, 0), o), told
}

// TestAfter: a GPU that has less memory than it said is asked for less, and one that fails is left out; errors that are
// not the GPU's stand.
func TestAfter(t *testing.T) {
	full := fmt.Errorf("model.gguf: %w", &hybrid.GPUError{Err: &vulkan.OutOfMemory{Device: "a GPU", Asked: 1, Used: 2, Budget: 3}})
	pipeline := &hybrid.GPUError{Err: errors.New("a pipeline cannot be compiled")}
	file := errors.New("model.gguf: no such tensor")
	for name, c := range map[string]struct {
		fits   float64 // GiB from which on the GPU fails, with:
		with   error
		opened []float64 // GiB of the GPUs that were tried, 0 for none
		told   string
	}{
		"at once":     {9, full, []float64{8}, ""},
		"with less":   {6, full, []float64{8, 6.8, 5.78}, "trying with less"},
		"never":       {0, full, []float64{8, 6.8, 5.78, 4.913, 0}, "going on without it"},
		"no pipeline": {0, pipeline, []float64{8, 0}, "going on without it"},
		"a bad file":  {0, file, []float64{8}, ""},
	} {
		p, told := planned(t, 16<<30, 1, Options{GPUs: GPUs{VRAM: []int64{8 << 30}}})
		var opened []float64
		for {
			plan, err := p.Plan()
			if err != nil {
				t.Fatal(err)
			}
			if plan == nil {
				opened = append(opened, 0)
				break
			}
			budget := gib(plan.GPUs[0].Budget)
			if opened = append(opened, budget); budget <= c.fits || !p.After(c.with) {
				break
			}
		}
		if !slices.EqualFunc(opened, c.opened, func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }) {
			t.Errorf("%s: budgets %v, want %v", name, opened, c.opened)
		}
		if c.told != "" && (len(*told) != len(opened)-1 || !strings.HasSuffix((*told)[len(*told)-1], c.told)) || c.told == "" && len(*told) > 0 {
			t.Errorf("%s: told %q", name, *told)
		}
	}
}

// TestRest: where one of two GPUs fails, what is left goes to the other, and where that fails, too, to none.
func TestRest(t *testing.T) {
	p, told := planned(t, 512<<20, 2, Options{})
	both, err := p.Plan()
	if err != nil || len(both.GPUs) != 2 || both.GPUs[0].Device != "3" || both.GPUs[1].Device != "5" {
		t.Fatalf("a plan for both GPUs: %+v, error %v", both, err)
	}
	lost := &hybrid.GPUError{Err: vulkan.ErrLost}
	if !p.After(fmt.Errorf("a step: %w", lost)) {
		t.Fatal("there is nothing else to try")
	}
	second, err := p.Plan()
	if err != nil || second == nil || len(second.GPUs) != 1 || second.GPUs[0].Device != "5" || second.GPUs[0].Planned > second.GPUs[0].Budget {
		t.Fatalf("a plan for the second GPU: %+v, error %v", second, err)
	}
	used := false
	for _, y := range second.Places {
		if used = used || y.Attention; y.Tier > 0 {
			t.Errorf("a layer lies on GPU %d of one", y.Tier)
		}
	}
	if !used {
		t.Error("nothing lies on the GPU that is left")
	}
	if !p.After(lost) {
		t.Error("the processor is not tried")
	}
	if rest, err := p.Plan(); rest != nil || err != nil {
		t.Errorf("a plan for no GPU: %+v, error %v", rest, err)
	}
	if p.After(lost) {
		t.Error("behind the processor alone there is something to try")
	}
	if len(*told) != 2 || !strings.HasSuffix((*told)[1], "going on without it") || strings.Contains(strings.Join(*told, ""), "\n") {
		t.Errorf("told %q", *told)
	}
}

// TestTensors: tensors are where the flags say by their names, on GPUs with the numbers that --list-devices shows.
func TestTensors(t *testing.T) {
	p, told := planned(t, 2<<30, 2, Options{GPUs: GPUs{Tensors: []string{`blk\.1\.=Vulkan3,blk\.4\.=Vulkan5`, `blk\.2\.ffn_(gate|up|down)=CPU`, `blk\.9\.=CPU`}}})
	plan, err := p.Plan()
	if err != nil || len(plan.GPUs) != 2 {
		t.Fatalf("%+v, error %v", plan, err)
	}
	for l, tier := range map[int]compute.Tier{1: 0, 4: 1} {
		if y := plan.Places[l]; y.Tier != tier || !y.Attention || y.Bound != p.cost.FF {
			t.Errorf("layer %d lies at %+v", l, y)
		}
	}
	if y := plan.Places[2]; y.Bound != 0 {
		t.Errorf("layer 2 lies at %+v, and its neurons were to stay in RAM", y)
	}
	if len(*told) != 1 || (*told)[0] != `no tensor of the model matches the pattern "blk\\.9\\."` {
		t.Errorf("told %q", *told)
	}
	p, _ = planned(t, 2<<30, 2, Options{GPUs: GPUs{Tensors: []string{`blk\.1\.=Vulkan0`}}})
	if _, err := p.Plan(); err == nil || !strings.HasSuffix(err.Error(), "there are: CPU, Vulkan3, Vulkan5") {
		t.Error(err)
	}
}

// TestKVInRAM: keys and values stay in RAM, whether neurons or whole layers are placed. The head and neurons are still
// on GPUs.
func TestKVInRAM(t *testing.T) {
	all := -1
	for name, o := range map[string]Options{"neurons": {}, "whole layers": {GPUs: GPUs{Layers: &all}}} {
		o.KVInRAM = true
		p, told := planned(t, 2<<30, 1, o)
		plan, err := p.Plan()
		if err != nil || len(plan.GPUs) != 1 || len(*told) != 0 {
			t.Fatalf("%s: %+v, error %v, told %q", name, plan, err, *told)
		}
		last := len(plan.Places) - 1
		want := p.cost.Model.Head
		for l, y := range plan.Places[:last] {
			if y.Attention || y.Tier != 0 || y.Bound == 0 || o.Layers != nil && y.Bound != p.cost.FF {
				t.Errorf("%s: layer %d lies at %+v", name, l, y)
			}
			if want += p.cost.Model.Layers[l].Units.Size * int64(y.Bound); y.Predictor {
				want += p.cost.Model.Layers[l].Predictor
			}
		}
		if !plan.Places[last].Attention || plan.Bytes != want {
			t.Errorf("%s: the head lies at %+v; %d bytes on the GPU, want %d", name, plan.Places[last], plan.Bytes, want)
		}
	}
	for text, want := range map[string]string{
		`blk\.1\.=Vulkan3`:              "--no-kv-offload: attention of layer 1 would lie on a GPU by --override-tensor",
		`blk\.1\.attn.*=Vulkan3`:        "--no-kv-offload: attention of layer 1 would lie on a GPU by --override-tensor",
		`blk\.1\.ffn_.*=Vulkan3`:        "",
		`blk\.1\.=CPU,blk=Vulkan3`:      "attention of layer 0 would lie",
		`blk\.\d\.attn=CPU,ffn=Vulkan3`: "",
	} {
		p, _ := planned(t, 2<<30, 1, Options{GPUs: GPUs{KVInRAM: true, Tensors: []string{text}}})
		_, err := p.Plan()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestBudgets: more than a GPU has is not used, and the user is told once; budgets that are none are refused.
func TestBudgets(t *testing.T) {
	p, told := planned(t, 512<<20, 2, Options{GPUs: GPUs{VRAM: []int64{100 << 30, 400 << 20}}})
	plan, err := p.Plan()
	if err != nil || len(plan.GPUs) != 2 || plan.GPUs[0].Budget != 512<<20 || plan.GPUs[1].Budget != 400<<20 || len(*told) != 1 || (*told)[0] != "of GPU 0 0.50 GiB are free: no more is used" {
		t.Fatalf("%+v, error %v, told %q", plan, err, *told)
	}
	if p.After(&hybrid.GPUError{Err: vulkan.ErrLost, GPU: 1}); len(*told) != 2 {
		t.Errorf("told %q", *told)
	}
	for want, asked := range map[string][]int64{"3 budgets, and GPUs in use: 2": {1, 2, 3}, "is less than none": {-1}} {
		p, _ := planned(t, 2<<30, 2, Options{GPUs: GPUs{VRAM: asked}})
		if _, err := p.Plan(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want %q", asked, err, want)
		}
	}
}
