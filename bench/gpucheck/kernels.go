package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/powerinfer-go/powerinfer/bench/checkup"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan"
	"github.com/powerinfer-go/powerinfer/internal/monotime"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// dims are the shapes of a layer that kernels are timed on.
type dims struct {
	embd, ff, heads, kvHeads int
	rank                     int // rank of a predictor
	vocab                    int
	positions                int // in the KV cache
	prompt                   int // tokens
}

func (c *check) dims() dims {
	if c.tiny {
		return dims{embd: 256, ff: 512, heads: 8, kvHeads: 8, rank: 64, vocab: 512, positions: 128, prompt: 64}
	}
	return dims{embd: 4096, ff: 11008, heads: 32, kvHeads: 32, rank: 1024, vocab: 32000, positions: 4096, prompt: 512}
}

// kernel is something to time. copy takes one more set of its weights in and returns the verbs that read them once.
type kernel struct {
	name   string
	types  []quant.Type // nil: every one
	tokens int
	copy   func(k *kit, s dims) func(v compute.Verbs)

	attends bool // it is attention, which has arithmetics of its own
}

// arithmetic returns how the device computes a prompt's kernel, and why not by an arithmetic that comes before it.
func (kern *kernel) arithmetic(d *vulkan.Device, t quant.Type, s dims) (vulkan.Arithmetic, error) {
	if kern.attends {
		return d.PromptAttention(s.embd/s.heads, s.embd/s.heads)
	}
	return d.LongProducts(t)
}

// of reports whether the kernel is timed with weights of a type.
func (kern *kernel) of(t quant.Type) bool { return kern.types == nil || slices.Contains(kern.types, t) }

func (c *check) kernels() []kernel {
	s := c.dims()
	product := func(name string, tokens int, shapes func(s dims) [][2]int) kernel {
		return kernel{name: name, tokens: tokens, copy: func(k *kit, s dims) func(compute.Verbs) { return k.products(shapes(s)) }}
	}
	qkv := func(s dims) [][2]int { return [][2]int{{s.embd, s.embd}, {s.embd, s.embd}, {s.embd, s.embd}} }
	gateUp := func(s dims) [][2]int { return [][2]int{{s.ff, s.embd}, {s.ff, s.embd}} }
	down := func(s dims) [][2]int { return [][2]int{{s.embd, s.ff}} }
	some, floats := []quant.Type{quant.Q4_0, quant.Q8_0, quant.F16}, []quant.Type{quant.F16}
	return []kernel{
		product("q, k, v", 1, qkv),
		product("attention's output", 1, func(s dims) [][2]int { return [][2]int{{s.embd, s.embd}} }),
		product("gate, up", 1, gateUp),
		product("down", 1, down),
		product("head", 1, func(s dims) [][2]int { return [][2]int{{s.vocab, s.embd}} }),
		{name: "a whole dense layer", tokens: 1, copy: (*kit).layer},
		{name: "a sparse layer, 10 % of its neurons", types: some, tokens: 1, copy: (*kit).sparse},
		{name: fmt.Sprintf("a predictor of rank %d", s.rank), types: some, tokens: 1, copy: (*kit).predictor},
		{name: fmt.Sprintf("attention over %d positions", s.positions), types: floats, tokens: 1, copy: func(k *kit, s dims) func(compute.Verbs) { return k.attention(s, s.kvHeads) }},
		{name: fmt.Sprintf("the same, %d heads sharing keys and values", 4), types: floats, tokens: 1, copy: func(k *kit, s dims) func(compute.Verbs) { return k.attention(s, s.kvHeads/4) }},
		product(fmt.Sprintf("gate, up of %d tokens", s.prompt), s.prompt, gateUp),
		product(fmt.Sprintf("down of %d tokens", s.prompt), s.prompt, down),
		{name: fmt.Sprintf("attention of %d tokens over %d positions", s.prompt, s.positions), types: floats, tokens: s.prompt, attends: true, copy: func(k *kit, s dims) func(compute.Verbs) {
			return k.attention(s, s.kvHeads/4)
		}},
	}
}

func (c *check) types() []quant.Type {
	if c.tiny {
		return []quant.Type{quant.F16}
	}
	return quant.Types()
}

// kernels times every kernel in every type against what the GPU's memory gives to a kernel that only reads.
func kernels(ctx context.Context, c *check, w *checkup.Report) error {
	m, err := c.measured(ctx)
	switch {
	case ctx.Err() != nil: // what was measured while the machine was busy is measured again
		w.Say("Cut off at the time limit.")
		return nil
	case err != nil:
		return err
	}
	if m.GPUs[0].Lacks != "" {
		return fmt.Errorf("the GPU could not be measured: %s", m.GPUs[0].Lacks)
	}
	peak := m.GPUs[0].Read
	w.Say("Each kernel reads weights of at least %d MiB in turn, far more than caches hold, time and again; the best of %d runs. Share is of the %.0f GB/s that a kernel "+
		"reaches which only reads. In a layer kernels wait for one another; without waits they overlap, which shows what waiting costs.", c.wanted(1)>>20, runs, peak/1e9)
	head := []string{"type", "kernel", "MB", "µs", "GB/s", "share", "without waits", "TFLOP/s"}
	var failed []error
	for _, t := range c.types() {
		var rows [][]string
		for _, kern := range c.kernels() {
			if ctx.Err() != nil {
				break
			}
			if !kern.of(t) || !c.only.MatchString(t.String()+" "+kern.name) {
				continue
			}
			checkup.Progress("%s, %s", t, kern.name)
			f, err := c.time(ctx, t, kern)
			if err != nil {
				if ctx.Err() == nil {
					failed = append(failed, fmt.Errorf("%s, %s: %w", t, kern.name, err))
				}
				rows = append(rows, []string{t.String(), kern.name, err.Error(), "", "", "", "", ""})
				continue
			}
			rows = append(rows, f.row(t, kern, peak))
		}
		if len(rows) > 0 {
			w.Table(head, rows...)
		}
	}
	if ctx.Err() != nil {
		w.Say("Cut off at the time limit.")
	}
	return errors.Join(failed...)
}

// figures are one kernel's, of a call.
type figures struct {
	bytes, flops   float64
	seconds, apart float64 // the latter without waits
}

func (f figures) row(t quant.Type, kern kernel, peak float64) []string {
	row := []string{t.String(), kern.name, fmt.Sprintf("%.1f", f.bytes/1e6), fmt.Sprintf("%.1f", 1e6*f.seconds), fmt.Sprintf("%.0f", f.bytes/f.seconds/1e9), "", "", ""}
	if kern.tokens == 1 {
		row[5] = fmt.Sprintf("%.0f %%", 100*f.bytes/f.seconds/peak)
		if f.apart > 0 {
			row[6] = fmt.Sprintf("%.0f %%", 100*f.bytes/f.apart/peak)
		}
	} else {
		row[7] = fmt.Sprintf("%.2f", f.flops/f.seconds/1e12)
	}
	return row
}

// wanted returns the bytes of weights that a kernel cycles over: more than four times the largest caches of GPUs.
// Prompts hardly depend on it.
func (c *check) wanted(tokens int) int64 {
	switch {
	case c.tiny:
		return 256 << 10
	case tokens > 1:
		return 256 << 20
	}
	return 1 << 30
}

// time times a kernel with weights of type t, with waits and, where its copies have outputs of their own, without.
func (c *check) time(ctx context.Context, t quant.Type, kern kernel) (figures, error) {
	var f figures
	for _, apart := range []bool{false, true} {
		k, err := c.kit(t, kern.tokens, apart, vulkan.Best)
		if err != nil {
			return f, err
		}
		seconds, err := k.time(ctx, kern, c.dims(), c.wanted(kern.tokens), c.tiny)
		if apart && err == nil {
			f.apart = seconds
		} else {
			f.seconds, f.bytes, f.flops = seconds, k.bytesRead()/float64(k.copies), k.flops/float64(k.copies)
		}
		if cerr := k.d.Close(); err == nil {
			err = cerr
		}
		if err != nil || k.chained || kern.tokens > 1 {
			return f, err
		}
	}
	return f, nil
}

// A timed run takes as many passes over all copies as enough lasts; the best of several runs counts.
const (
	enough     = 50 * time.Millisecond
	runs       = 5
	mostPasses = 1 << 11
)

// time returns the seconds of one call of the kernel.
func (k *kit) time(ctx context.Context, kern kernel, s dims, wanted int64, once bool) (float64, error) {
	var calls []func(v compute.Verbs)
	for k.bytes < wanted && (len(calls) < 2 || k.d.Used() < k.d.Info().Free/2) {
		call := kern.copy(k, s)
		if k.err != nil {
			return 0, k.err
		}
		calls = append(calls, call)
		k.copies++
	}
	k.counting = true
	if _, err := k.run(1, calls); err != nil {
		return 0, err
	}
	k.counting, k.recorded = false, 0
	passes, best, most := 1, 0.0, runs
	if once {
		most = 1
	}
	for run := 0; run < most && ctx.Err() == nil; run++ {
		took, err := k.run(passes, calls)
		if err != nil {
			return 0, err
		}
		if took < enough && passes < mostPasses && !once { // not a run that counts
			passes = min(mostPasses, 1+int(1.3*float64(passes)*float64(enough)/float64(took+1)))
			run = -1
			continue
		}
		if one := took.Seconds() / float64(passes*len(calls)); best == 0 || one < best {
			best = one
		}
	}
	if best == 0 {
		return 0, context.Cause(ctx)
	}
	return best, nil
}

// run returns the time of this many passes over all calls, which it records before.
func (k *kit) run(passes int, calls []func(v compute.Verbs)) (time.Duration, error) {
	seg := compute.Segment{Name: fmt.Sprintf("%d passes, counting %t", passes, k.counting), Rows: k.tokens}
	k.params.Decode = 0
	if k.tokens == 1 { // a token of a text; several are a prompt's
		k.params.Decode = 1
	}
	seg.Decode = k.params.Decode
	body := func(v compute.Verbs) {
		k.begin(v)
		for range passes {
			for _, call := range calls {
				call(v)
			}
		}
	}
	if k.recorded != passes {
		if err := k.d.Run(seg, &k.params, body); err != nil {
			return 0, err
		}
		k.recorded = passes
	}
	start := monotime.Now()
	err := k.d.Run(seg, &k.params, body)
	return monotime.Since(start), err
}
