package vulkan

import (
	"fmt"
	"slices"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/compute/hybrid"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/driver"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/synth"
	"github.com/powerinfer-go/powerinfer/internal/synth/synthtest"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// TestPromptsBeside: prompts with experts and cold neurons that arrive through the queue for copies give the same bytes
// as with a single queue. This holds also if the two queues run in the worst orders that their waits allow.
func TestPromptsBeside(t *testing.T) {
	testenv.Thorough(t)
	d := lent(t)
	beside, passing := d.beside, d.passing
	defer func() { d.beside, d.passing = beside, passing }()
	d.beside, d.passing = false, 1 // even on a GPU; a page at a time
	whole := testenv.Exhaustive(t) // else cases take turns with the worst orders
	for i, c := range []struct {
		name string
		spec synth.Spec
		mode model.SparseMode
		held [3]int // experts or neurons of each layer that are on the GPU
		ram  int    // the number of layers with attention in RAM
		slot bool
		sent int64 // bytes of a chunk
	}{
		{"experts", synth.Spec{Arch: "qwen3moe", Type: quant.F32, Experts: 24, Used: 3, FF: 32}, model.Off, [3]int{5, 0, 20}, 0, false, 300 << 10},
		{"experts that follow the text", synth.Spec{Arch: "qwen3moe", Type: quant.F32, Experts: 24, Used: 3, FF: 32}, model.Off, [3]int{5, 3, 20}, 0, true, 300 << 10},
		{"neurons", synth.Spec{Arch: "llama", Type: quant.Q8_0}, model.Off, [3]int{256, 0, 512}, 0, false, 64 << 10},
		{"layers in RAM", synth.Spec{Arch: "llama", Type: quant.Q4_K}, model.Off, [3]int{0, 0, 512}, 2, false, 64 << 10},
		{"sets of neurons", synth.Spec{Arch: "llama", Type: quant.Q4_0, Magic: "PWRI"}, model.Predict, [3]int{256, 0, 512}, 0, false, 64 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := synthtest.Sparse(t, c.spec, len(c.held))
			places := make([]compute.Place, len(c.held)+1)
			for l, n := range c.held {
				places[l] = compute.Place{Split: compute.Split{Bound: n, Slots: c.slot}, Attention: l >= c.ram, Predictor: true}
			}
			want, of := streamed(t, f, alike{kept{d}}, places, c.mode, c.sent)
			promotions := of.Usage().Slots.Promotions
			defer setBeside(d)()
			late := []string{"late copies", "late commands"}
			if !whole {
				late = late[i%2:][:1]
			}
			for _, name := range append(late, "by semaphores") {
				gpu := map[string]hybrid.GPU{
					"by semaphores": alike{kept{d}},
					"late copies":   disordered{alike: alike{kept{d}}, commands: true},
					"late commands": disordered{alike: alike{kept{d}}, copies: true},
				}[name]
				before := d.gpu.Copies.Last()
				got, of := streamed(t, f, gpu, places, c.mode, c.sent)
				if !slices.EqualFunc(got, want, slices.Equal) {
					t.Errorf("%s: the logits differ", name)
				}
				if n := of.Usage().Slots.Promotions; n != promotions {
					t.Errorf("%s: %d experts moved, and %d in one queue", name, n, promotions)
				}
				if n := int64(d.gpu.Copies.Last()-before) - promotions; n < 2*3*2 { // two prompts, three layers, two chunks or more
					t.Errorf("%s: %d copies of chunks", name, n)
				}
			}
		})
	}
}

// streamed returns the logits of two prompts and of tokens after them. The model is on a GPU and the processor, and
// sends what prompts need to the GPU.
func streamed(t *testing.T, f *gguf.File, gpu hybrid.GPU, places []compute.Place, mode model.SparseMode, chunk int64) (rows [][]float32, d *hybrid.Device) {
	t.Helper()
	host, err := cpu.New(cpu.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	var attention []bool
	for _, y := range places[:len(places)-1] {
		attention = append(attention, y.Attention)
	}
	d = hybrid.New(gpu, host, attention)
	d.FollowUse(eager())
	d.Stream(hybrid.Streaming{Tokens: 8, Experts: 8, Bytes: chunk, Pages: 1 << 20})
	m, err := model.Load(t.Context(), f, d, model.Options{Batch: 16, Outputs: 16, Cache: compute.CacheSpec{Pages: 4}, Neurons: model.Neurons{Sparse: mode}, Places: places})
	if err != nil {
		d.Close()
		t.Fatal(err)
	}
	s := sequence{m: m, pages: []int32{1, 0, 3, 2}}
	for round := range 2 {
		for _, n := range []int{11, 1} {
			var tokens []int32
			for i := range n {
				tokens = append(tokens, int32(7*i+13*round+1))
			}
			for _, row := range s.step(t, tokens) {
				rows = append(rows, slices.Clone(row))
			}
		}
	}
	if d.Sent() == 0 {
		t.Error("nothing was sent")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	return rows, d
}

// alike is a device with experts that follow the text as on a device with one queue.
type alike struct{ kept }

func (alike) CopiesBeside() bool { return false }

// disordered is a device that runs commands, or copies, only when something else waits for them. Nothing is left to
// semaphores.
type disordered struct {
	alike
	commands, copies bool // run as soon as they may
}

// twoQueues are a device's two queues: the operations in order, and how many of them have run.
type twoQueues struct {
	g               *driver.GPU
	commands        []driver.Command
	copies          []vk.CommandBuffer
	after           []uint64 // [copies] the number of commands that must run before each
	commanded, sent uint64
}

// command runs commands up to number n, and what they wait for.
func (q *twoQueues) command(n uint64) error {
	for q.commanded < n {
		c := q.commands[q.commanded]
		if err := q.copy(c.Copies); err != nil {
			return err
		}
		q.commanded++
		ran, err := q.g.Submit(driver.Command{Buffer: c.Buffer})
		if err == nil {
			err = q.g.Wait(ran)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copy runs copies up to number n, and what they wait for.
func (q *twoQueues) copy(n uint64) error {
	for q.sent < n {
		k := q.sent
		if err := q.command(q.after[k]); err != nil {
			return err
		}
		q.sent++
		ran, err := q.g.Copies.Submit(q.copies[k], 0)
		if err == nil {
			err = q.g.Copies.Wait(ran)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ready returns how many commands and copies there are, those that may be late left out.
func (d disordered) ready(q *twoQueues) (commands, copies uint64) {
	if d.commands {
		commands = uint64(len(q.commands))
	}
	if d.copies {
		copies = uint64(len(q.copies))
	}
	return commands, copies
}

// Run plays a segment in the order that d stands for.
func (d disordered) Run(seg compute.Segment, p *compute.Params, body func(compute.Verbs)) error {
	d.seen.restart()
	if err := d.Record(seg, p, body); err != nil {
		return err
	}
	s := d.segments[seg]
	if s == nil {
		return fmt.Errorf("segment %q cannot be played again", seg.Name)
	}
	for _, check := range s.checks {
		if err := check(p); err != nil {
			return err
		}
	}
	for _, in := range s.inputs {
		in.fill(p, in.Host())
	}
	for _, r := range s.results {
		clear(r.Host())
	}
	if err := d.play(s, p); err != nil {
		return err
	}
	for _, r := range s.results {
		r.done(p, r.Host())
	}
	d.played, d.lead = s, s.params.lead(p)
	return nil
}

func (d disordered) play(s *segment, p *compute.Params) error {
	q := &twoQueues{g: d.gpu}
	for i := range s.legs {
		l := &s.legs[i]
		awaited := uint64(0)
		if l.late {
			awaited = uint64(len(q.commands))
		}
		if l.copies != 0 {
			q.copies, q.after = append(q.copies, l.copies), append(q.after, l.after)
		}
		if l.command.Buffer != 0 {
			q.commands = append(q.commands, l.command)
			awaited = uint64(len(q.commands))
		}
		if l.overlap.Buffer != 0 {
			q.commands = append(q.commands, l.overlap)
		}
		if l.host == nil {
			continue
		}
		if l.fed {
			awaited = l.needs
		}
		commands, copies := d.ready(q)
		for _, run := range []func() error{
			func() error { return q.copy(copies) },
			func() error { return q.command(max(commands, awaited)) },
			func() error { return q.copy(l.brought) },
			func() error { return l.host(p) },
		} {
			if err := run(); err != nil {
				return err
			}
		}
	}
	if err := q.command(uint64(len(q.commands))); err != nil {
		return err
	}
	return q.copy(uint64(len(q.copies)))
}
