package engine_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/session"
	"github.com/powerinfer-go/powerinfer/internal/synth"
)

// TestLeftOut: experts are left out only of a model on the disk, and only on request.
func TestLeftOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	spec := synth.Spec{Arch: "qwen3moe", Layers: 6, Embd: 256, FF: 512, Heads: 4, KVHeads: 2, Type: quant.Q8_0, Experts: 16, Used: 4, Activation: "silu", Seed: 5}
	if err := synth.Write(t.Context(), path, spec, nil); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	skip := compute.Skip{After: 1, Below: 1}
	always := model.Neurons{Skip: compute.Skip{After: 1, Below: 1, Always: true}}
	if _, err := model.Load(t.Context(), f, nil, model.Options{Neurons: always, Places: make([]compute.Place, spec.Layers+1)}); err == nil || !strings.Contains(err.Error(), "choose no GPU") {
		t.Errorf("with a GPU that computes every expert that it has: %v", err)
	}
	var want []int32
	for _, c := range []struct {
		disk bool
		skip compute.Skip
		left bool
	}{{}, {skip: skip}, {disk: true}, {true, skip, true}} {
		o := session.Options{Engine: engine.Options{Limits: engine.Limits{Context: 128, UBatch: 32}, Neurons: engine.Neurons{Skip: c.skip}}, Planner: planner.Options{GPUs: planner.GPUs{Devices: vulkan.None}}}
		o.Planner.Threads = 2
		if c.disk {
			m, err := o.Engine.Least(f, placement.Layout{})
			if err != nil {
				t.Fatal(err)
			}
			budget := m.Need + 1<<20
			o.Engine.RAM = &budget
		}
		e, err := session.Open(t.Context(), f, o)
		if err != nil {
			t.Fatal(err)
		}
		if m := e.Memory(); (m.OnDisk > 0) != c.disk {
			t.Fatalf("on the disk: %+v", m)
		}
		got, _ := greedy(t, e.Engine, []int32{5, 6, 7, 8, 9, 10}, 8)
		use := e.UnitUse()
		if (use.Left > 0) != c.left || use.Misses == 0 && c.disk {
			t.Errorf("%+v: %+v", c, use)
		}
		if c.left {
			if most := int64(6 * 3 * 14); use.Left > most { // layers, experts after the first, tokens
				t.Errorf("%d uses were left out of %d at most", use.Left, most)
			}
		} else if want == nil {
			want = got
		} else if !slices.Equal(got, want) {
			t.Errorf("%+v: %v, want %v", c, got, want)
		}
		if err := e.Engine.Close(); err != nil {
			t.Error(err)
		}
	}
}
