package vulkan

import (
	"errors"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
)

// The model of TestSlotsOnDisk has layers of this many experts, and a GPU has slots for heldOnDisk of each.
const (
	expertsOnDisk = 16
	heldOnDisk    = 4
	storedExpert  = 3 * 32 * 256 / 32 * 18 // in the file
	packedExpert  = 61440                  // in RAM
)

// tiers says where a model's experts that are in no slot of the GPU are.
type tiers struct {
	disk  bool
	slots int64 // RAM for that many of those on disk
	chunk int64 // bytes that are sent to the GPU together for prompts; 0: nothing is sent
}

// load loads the model on the GPU and host, which has the tiers' room.
func (c tiers) load(t *testing.T, f *gguf.File, gpu *Device, host func(*cpu.Device) hybrid.Host) (*model.Model, *hybrid.Device) {
	t.Helper()
	processor, err := cpu.New(cpu.Options{Threads: 1, Floats: true, UnitCache: 4*storedExpert + 3*c.chunk + c.slots*packedExpert})
	if err != nil {
		t.Fatal(err)
	}
	d := hybrid.New(kept{gpu}, host(processor), slices.Repeat([]bool{true}, layersOfFamilies))
	d.FollowUse(eager())
	d.Stream(hybrid.Streaming{Experts: int(min(8, c.chunk)), Bytes: c.chunk})
	b := budget{experts: heldOnDisk, slots: true}
	m, err := model.Load(t.Context(), f, d, model.Options{
		Batch: 40, Outputs: 40, Cache: compute.CacheSpec{Pages: 2}, Neurons: model.Neurons{Sparse: model.Off}, Places: b.places(layersOfFamilies), OnDisk: c.disk,
	})
	if err != nil {
		d.Close()
		t.Fatal(err)
	}
	return m, d
}

// said returns the logits of a text: of a prompt between single tokens.
func said(t *testing.T, m *model.Model) (logits [][]float32) {
	t.Helper()
	s := sequence{m: m, pages: []int32{1, 0}}
	for _, n := range []int{1, 1, 1, 40, 1, 1, 1, 1, 1, 1, 1, 1} {
		var tokens []int32
		for i := range n {
			tokens = append(tokens, int32(7*(s.at+i)%300+1))
		}
		logits = append(logits, s.step(t, tokens)...)
	}
	return logits
}

// TestSlotsOnDisk: experts on disk follow the text into the GPU's slots by the same copies, and give the same bytes, as
// experts in RAM. RAM has room for all of them or for fewer than a token uses, and prompts have them sent or not. An
// expert that cannot be read is not copied, its error is kept, and steps go on.
func TestSlotsOnDisk(t *testing.T) {
	gpu := lent(t)
	f := synthtest.SparseOnDisk(t, synth.Spec{Arch: "qwen3moe", Type: quant.Q4_0, Experts: expertsOnDisk, Used: 3, FF: 32, Vocab: 320}, layersOfFamilies)
	own := func(d *cpu.Device) hybrid.Host { return d }
	run := func(c tiers) (logits [][]float32, use compute.Usage, sent int64) {
		m, d := c.load(t, f, gpu, own)
		defer d.Close()
		return said(t, m), d.Usage(), d.Sent()
	}
	for _, chunk := range []int64{0, 3 * storedExpert} {
		want, inRAM, wantSent := run(tiers{chunk: chunk})
		if u := inRAM.Slots; u.Promotions == 0 || u.Hits == 0 || u.Misses == 0 || (wantSent > 0) != (chunk > 0) {
			t.Errorf("%+v and %d bytes sent with all in RAM", u, wantSent)
		}
		for _, slots := range []int64{3, layersOfFamilies * expertsOnDisk} {
			got, use, sent := run(tiers{true, slots, chunk})
			if use.Slots != inRAM.Slots || sent != wantSent {
				t.Errorf("%+v and %d bytes sent with %d experts in RAM, with all %+v and %d", use.Slots, sent, slots, inRAM.Slots, wantSent)
			}
			if u := use.Units; u.Units != layersOfFamilies*expertsOnDisk || u.Slots != slots || (u.Misses > 0) != (slots < u.Units) {
				t.Errorf("%+v with %d experts in RAM", u, slots)
			}
			if !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("other bytes with %d experts in RAM and chunks of %d than with all in RAM", slots, chunk)
			}
		}
	}
	left := 20
	m, d := tiers{true, 9, 0}.load(t, f, gpu, func(d *cpu.Device) hybrid.Host { return unreadable{d, &left} })
	defer d.Close()
	said(t, m)
	if u := d.Usage(); left > 0 || u.Slots.Promotions == 0 || u.Unread == nil {
		t.Errorf("%+v after experts that could not be read; %d more were to be", u, left)
	}
}

// unreadable is a processor that cannot read some of the experts that are copied.
type unreadable struct {
	*cpu.Device
	left *int // experts that it cannot read
}

func (h unreadable) Borrow(m *compute.Matrix, unit int32) compute.UnitFetch {
	f := h.Device.Borrow(m, unit)
	if *h.left == 0 {
		return f
	}
	*h.left--
	return unread{f}
}

type unread struct{ compute.UnitFetch }

func (u unread) Wait() error { return errors.Join(errors.New("not in a test"), u.UnitFetch.Wait()) }
