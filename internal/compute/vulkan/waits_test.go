package vulkan

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

var updateWaits = flag.Bool("update-waits", false, "write testdata/waits.txt anew")

// The most dispatches of a token's layer that wait for others. The first layer is excluded, because it takes its input
// from embeddings.
const (
	mostInAttention = 6
	mostInFFN       = 3
	mostInExperts   = 7 // a feed-forward layer of experts, some next to a dense one, with its norm and its router
	mostInSparse    = 4 // a feed-forward layer by neuron, with its norm and its predictor
)

// others are families with more in a layer than attention and a feed-forward layer: embeddings of each layer, a
// recurrent part, choices of what attention sees, several streams.
var others = map[string]bool{
	"deepseek4": true, "falcon-h1": true, "gemma3n": true, "jamba": true, "mamba": true, "minimax-m3": true, "qwen4exp": true, "rwkv7": true,
}

// recording is a device that counts and records what it is to run.
type recording struct{ *Device }

func (d recording) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	return d.Record(seg, p, body)
}

// waits are the dispatches of a part of a layer, and how many of them wait for others.
type waits struct{ waits, all int }

func (w waits) String() string { return fmt.Sprintf("%d of %d", w.waits, w.all) }

// layerWaits returns the waits of each layer's attention and feed-forward part for a token. Dispatches from the first
// weight of a feed-forward layer on belong to that part.
func layerWaits(t *testing.T, f lineage.Family, spec synth.Spec, mode model.SparseMode) (layers [][2]waits) {
	t.Helper()
	d := Counter(Info{Memory: 1 << 40, Free: 1 << 40})
	m, err := model.Load(t.Context(), synthtest.File(t, spec), recording{d}, model.Options{Batch: 8, Outputs: 8, Cache: compute.CacheSpec{Pages: 2}, Neurons: model.Neurons{Sparse: mode}})
	if err != nil {
		t.Fatal(err)
	}
	layers = make([][2]waits, spec.Layers-1) // rows of logits follow the last layer
	layer, part := -1, 0
	d.tally = func(_ *call, weight string, waits bool) {
		var now int
		var name string
		if n, _ := fmt.Sscanf(weight, "blk.%d.%s", &now, &name); n < 2 || now >= len(layers) {
			layer = -1
			return
		}
		if now != layer {
			layer, part = now, 0
		}
		router := strings.HasPrefix(name, "ffn_gate_inp") // which may come before attention
		if strings.HasPrefix(name, "ffn") && !router || f.FFNNorm != "" && strings.HasPrefix(name, f.FFNNorm+".") {
			part = 1
		}
		w := &layers[layer][part]
		if router {
			w = &layers[layer][1]
		}
		w.all++
		if waits {
			w.waits++
		}
	}
	p := compute.Params{Decode: 1, Tokens: []int32{1}, Pos: []int32{0}, Seq: []int32{0}, Pages: [][]int32{{1, 0}}, Near: [][]int32{{1, 0}}, States: []int32{0}, Out: []int32{0}}
	if err := m.Forward(&p); err != nil {
		t.Fatal(err)
	}
	return layers
}

// TestWaits holds the dispatches of a token's layers, and how many of them wait, to testdata/waits.txt, for every
// family: each wait costs microseconds in which the device computes nothing.
func TestWaits(t *testing.T) {
	const path = "testdata/waits.txt"
	var b strings.Builder
	b.WriteString("Dispatches of a token's layers that wait for others, of all: attention, feed-forward layer. Written by go test -run TestWaits -update-waits.\n\n")
	for _, f := range lineage.All() {
		if f.Headless {
			continue
		}
		spec := synth.Spec{Arch: f.Name, Type: quant.Q4_0, Layers: 3, Embd: 256, FF: 512, Heads: 4, Seed: 11}
		layers := layerWaits(t, f, spec, model.Off)
		fmt.Fprintf(&b, "%s", f.Name)
		for i, l := range layers {
			if i == 0 || l != layers[i-1] {
				fmt.Fprintf(&b, "\t%v, %v", l[0], l[1])
			}
			ffn := mostInFFN
			if f.Experts != nil {
				ffn = mostInExperts
			}
			if i > 0 && !f.Latent && !others[f.Name] && (l[0].waits > mostInAttention || l[1].waits > ffn) {
				t.Errorf("%s: %v in attention and %v in the feed-forward layer wait, and %d and %d may", f.Name, l[0], l[1], mostInAttention, ffn)
			}
		}
		b.WriteByte('\n')
	}
	for _, c := range []struct {
		arch, magic string
		mode        model.SparseMode
	}{{"llama", "PWRI", model.Predict}, {"falcon", "PWRI", model.Predict}, {"llama", "", model.Exact}, {"arcee", "", model.Exact}} {
		for _, f := range lineage.All() {
			if f.Name != c.arch {
				continue
			}
			spec := synth.Spec{Arch: f.Name, Type: quant.Q4_0, Layers: 3, Embd: 256, FF: 512, Heads: 4, Seed: 11, Sparsity: 0.9, Magic: c.magic}
			l := layerWaits(t, f, spec, c.mode)[0]
			fmt.Fprintf(&b, "%s, %s\t%v, %v\n", f.Name, c.mode, l[0], l[1])
			if l[1].waits > mostInSparse {
				t.Errorf("%s, %s: %v in the feed-forward layer wait, and %d may", f.Name, c.mode, l[1], mostInSparse)
			}
		}
	}
	if *updateWaits {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("dispatches and waits are other ones than in %s:\n%s", path, b.String())
	}
}
