package modelcost

import (
	"path/filepath"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/ref"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// weighing is a device that adds up the bytes of the weights it is given. Prompts' keys are made of latent vectors on
// it, if expands.
type weighing struct {
	*ref.Device
	expands bool
	bytes   int64
}

func (d *weighing) ExpandsLatent() bool { return d.expands }

func (d *weighing) Matrix(src compute.Source, use compute.Use) (*compute.Matrix, error) {
	d.bytes += int64(len(src.Data))
	return d.Device.Matrix(src, use)
}

func (d *weighing) Vector(src compute.Source) (*compute.Vector, error) {
	d.bytes += int64(len(src.Data))
	return d.Device.Vector(src)
}

// TestLatent: the counted bytes of latent attention are those that a device gets, with the keys' matrices in both forms
// and without, for files with a matrix for each head and with one for all.
func TestLatent(t *testing.T) {
	for _, arch := range []string{"deepseek2", "minicpm3"} {
		for _, typ := range []quant.Type{quant.F16, quant.Q8_0} {
			path := filepath.Join(t.TempDir(), "model.gguf")
			if err := synth.Write(t.Context(), path, synth.Spec{Arch: arch, Type: typ, Layers: 2, Embd: 256, FF: 256, Heads: 4, Seed: 5}, nil); err != nil {
				t.Fatal(err)
			}
			f, err := gguf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			given := func(expands bool) int64 {
				d := &weighing{Device: ref.New(), expands: expands}
				if _, err := model.Load(t.Context(), f, d, model.Options{Batch: 8, Outputs: 1, Cache: compute.CacheSpec{Pages: 1}}); err != nil {
					t.Fatal(err)
				}
				return d.bytes
			}
			b := of(t, f, law())
			places := make([]compute.Place, b.Layers+1)
			for l := range places {
				places[l].Tier = compute.RAM
			}
			p, err := placement.Price(&b.Model, &placement.Machine{Stream: 1, Rows: 1}, places)
			if err != nil {
				t.Fatal(err)
			}
			kv := int64(0)
			for _, y := range b.Model.Layers {
				kv += y.KV
			}
			once, twice := given(false), given(true)
			if got := b.Model.Bytes() + b.Rest - kv; got != once {
				t.Errorf("%s in %s: %d bytes without the keys' matrices as they are, the device has %d", arch, typ, got, once)
			}
			if got := p.RAM + b.Rest - kv; got != twice || twice <= once {
				t.Errorf("%s in %s: %d bytes in RAM, the device has %d, and %d without the keys' matrices as they are", arch, typ, got, twice, once)
			}
		}
	}
}

// TestFurther: the counted bytes of an MTP layer are what a device gets in addition, with keys and values. Its own
// embedding table is not for a GPU.
func TestFurther(t *testing.T) {
	for _, arch := range []string{"deepseek2", "glm4moe"} {
		f := synthtest.Further(t, synth.Spec{Arch: arch, Type: quant.Q8_0, Layers: 3, Embd: 256, FF: 256, Heads: 4, Experts: 4, Used: 2, Activation: "silu", Seed: 5}, true)
		given := func(further bool) int64 {
			d := &weighing{Device: ref.New(), expands: true}
			if _, err := model.Load(t.Context(), f, d, model.Options{Batch: 8, Outputs: 1, Further: further, Cache: compute.CacheSpec{Pages: 1}}); err != nil {
				t.Fatal(err)
			}
			return d.bytes
		}
		cost := func(further bool) Cost {
			o := law()
			o.Further = further
			return of(t, f, o)
		}
		with, without := cost(true), cost(false)
		y := &with.Further
		if got, want := with.Rest-without.Rest, given(true)-given(false)+y.KV; got != want {
			t.Errorf("%s: %d bytes more in RAM, the device has %d more", arch, got, want)
		}
		if got, want := with.Rest-without.Rest-y.Bytes()-y.Expanded, f.Tensor("blk.2.nextn.embed_tokens.weight").Bytes(); got != want {
			t.Errorf("%s: %d bytes stay in RAM, the layer's embedding table has %d", arch, got, want)
		}
		if y.KV != without.Model.Layers[0].KV {
			t.Errorf("%s: %d bytes of keys and values, a layer of the model's has %d", arch, y.KV, without.Model.Layers[0].KV)
		}
	}
}
