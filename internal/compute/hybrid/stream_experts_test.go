package hybrid_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/residency"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestStreamedExperts: a prompt sends each missing expert to the GPU once, with the same results. Single tokens send
// nothing, and neither does the last layer, which computes only a prompt's last row.
func TestStreamedExperts(t *testing.T) {
	testenv.Thorough(t)
	const experts, used, width, embd = 24, 3, 32, 256
	held := []int{5, 0, 20} // of each layer, on the GPU
	f := synthtest.SparseOnDisk(t, synth.Spec{Arch: "qwen3moe", Type: quant.F32, Experts: experts, Used: used, FF: width}, layers)
	var plan [layers + 1]compute.Place
	for l, n := range held {
		plan[l] = compute.Place{Split: compute.Split{Bound: n}, Attention: true}
	}
	open := func(processor *cpu.Device, experts int, s hybrid.Slots) *hybrid.Device {
		gpu, err := vulkan.Open(vulkan.Options{Device: vulkan.Software})
		if errors.Is(err, vulkan.ErrNone) || err != nil && strings.Contains(err.Error(), "no device is called") {
			testenv.Missing(t, "vulkan", err.Error())
		}
		if err != nil {
			t.Fatal(err)
		}
		d := hybrid.New(gpu, processor, slices.Repeat([]bool{true}, layers))
		d.FollowUse(s)
		d.Stream(hybrid.Streaming{Experts: experts, Bytes: 300 << 10}) // three experts at a time
		return d
	}
	o := model.Options{Places: plan[:], Neurons: model.Neurons{Sparse: model.Off}} // exact keeps experts in RAM
	never := open(host(t), 0, hybrid.Slots{})
	plain, _ := logits(t, f, never, o)
	if never.Sent() != 0 {
		t.Errorf("%d bytes were sent, and nothing was to be", never.Sent())
	}
	const expert = 3 * width * embd * 4
	d := open(host(t), 8, hybrid.Slots{})
	streamed, _ := logits(t, f, d, o)
	if diff := apart(streamed, plain); !(diff <= agree) {
		t.Errorf("where experts are sent a logit differs by %.2g of the largest, more than %g", diff, agree)
	}
	if want := int64(2 * (experts - 5 + experts) * expert); d.Sent() != want { // logits has a prompt of eleven tokens twice
		t.Errorf("%d bytes of experts were sent, want %d", d.Sent(), want)
	}

	processor, err := cpu.New(cpu.Options{Threads: 2, Floats: true, UnitCache: 2 << 20})
	if err != nil {
		t.Fatal(err)
	}
	d = open(processor, 8, hybrid.Slots{})
	o.OnDisk = true
	fromDisk, _ := logits(t, f, d, o)
	if apart(fromDisk, streamed) != 0 {
		t.Error("experts on disk have other bytes where they are sent")
	}
	o.OnDisk = false

	tuning := residency.Tuned()
	tuning.Doubt = 0
	for l := range held {
		plan[l].Slots = true
	}
	d = open(host(t), 8, hybrid.Slots{Speeds: residency.Speeds{RAM: 1, GPU: 10, Bus: 100}, Tuning: tuning, AtOnce: true})
	streamed, _ = logits(t, f, d, o)
	if diff := apart(streamed, plain); !(diff <= agree) {
		t.Errorf("where experts follow the text and prompts have the others sent a logit differs by %.2g of the largest, more than %g", diff, agree)
	}
	if use := d.Usage().Slots; use.Promotions == 0 || use.Hits+use.Misses != 2*(16+6)*used { // twice sixteen tokens, with eleven of a prompt, in the first layer, and six rows in the last
		t.Errorf("%+v", use)
	}
	if want := int64(2 * (experts - 5 + residency.Copies + experts) * expert); d.Sent() > want || d.Sent() == 0 { // slots that are being filled hold none
		t.Errorf("%d bytes of experts were sent, want at most %d", d.Sent(), want)
	}
}
