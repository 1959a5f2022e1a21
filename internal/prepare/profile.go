package prepare

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/powerinfer-go/powerinfer/internal/fault"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// profiler observes the dense model: it counts which neurons are active on the calibration text, and samples inputs and
// active sets of both texts.
type profiler struct {
	threads int
	norms   [][]float32 // [layer][n_ff] ‖d_i‖
	counts  [][]uint32  // [layer][n_ff]
	sums    [][]float64 // [layer][n_ff] Σ|a_i|
	tokens  uint64      // counted
	idle    bool        // nothing is observed
	traces  *traces     // nil: nothing is sampled
	plan    [roles]sampling

	// The step in progress.
	role      role
	documents []int32 // [n]
	sampled   []int   // tokens of the step
	err       error
}

// sampling chooses want of total tokens, evenly.
type sampling struct{ want, total, seen int }

// next reports whether the next token is sampled.
func (s *sampling) next() bool {
	t := s.seen
	s.seen++
	return s.total > 0 && (t+1)*s.want/s.total > t*s.want/s.total
}

func newProfiler(f *gguf.File, c model.Config, threads int) (*profiler, error) {
	p := &profiler{threads: threads, norms: make([][]float32, c.Layers)}
	var failed atomic.Pointer[error]
	parallel(threads, c.Layers, func(l int) {
		norms, err := downNorms(f, l, c.Embd, c.FF)
		if err != nil {
			failed.Store(&err)
		}
		p.norms[l] = norms
	})
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	for range c.Layers {
		p.counts, p.sums = append(p.counts, make([]uint32, c.FF)), append(p.sums, make([]float64, c.FF))
	}
	return p, nil
}

// downNorms returns the lengths of a layer's down columns. [n_ff]
func downNorms(f *gguf.File, layer, embd, ff int) ([]float32, error) {
	name := fmt.Sprintf("blk.%d.ffn_down.weight", layer)
	t := f.Tensor(name)
	if t == nil || len(t.Shape) != 2 || t.Shape[0] != ff || t.Rows() != embd {
		return nil, fmt.Errorf("%s: tensor %q is missing or not [%d %d]", f.Path, name, ff, embd)
	}
	squares, row, bytes := make([]float64, ff), make([]float32, ff), t.Type.RowBytes(ff)
	for i := range embd {
		quant.Decode(t.Type, row, t.Data[i*bytes:][:bytes])
		for j, v := range row {
			squares[j] += float64(v) * float64(v)
		}
	}
	f.DontNeed(t)
	norms := make([]float32, ff)
	for j, s := range squares {
		norms[j] = float32(math.Sqrt(s))
	}
	return norms, nil
}

// parallel calls f(0…n-1) from several goroutines.
func parallel(threads, n int, f func(i int)) {
	var next atomic.Int64
	var wg fault.Group
	for range min(threads, n) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// step evaluates windows of one of the texts.
func (p *profiler) step(r *runner, to role, ws []window) error {
	p.role, p.documents, p.sampled = to, p.documents[:0], p.sampled[:0]
	for _, w := range ws {
		for range w.tokens {
			if p.plan[to].next() {
				p.sampled = append(p.sampled, len(p.documents))
			}
			p.documents = append(p.documents, w.document)
		}
	}
	if err := r.run(ws); err != nil {
		return err
	}
	if to == calibrating {
		p.tokens += uint64(len(p.documents))
	}
	return p.err
}

// countBlock is how many neurons a goroutine counts at once.
const countBlock = 1024

// FeedForward is model.Observer.
func (p *profiler) FeedForward(layer int, s model.FFNStep) {
	if p.err != nil || p.idle {
		return
	}
	rows := make([][]float32, len(p.documents))
	for i := range rows {
		rows[i] = s.Activations(i)
	}
	if p.role == calibrating {
		p.count(layer, rows)
	}
	if p.traces == nil {
		return
	}
	inputs, records := make([][]float32, len(p.sampled)), make([][]byte, len(p.sampled))
	for i, t := range p.sampled {
		inputs[i] = s.Normed(t)
	}
	parallel(p.threads, len(records), func(i int) {
		t := p.sampled[i]
		records[i] = appendRecord(nil, p.documents[t], inputs[i], rows[t], p.norms[layer])
	})
	p.err = p.traces.append(p.role, layer, records...)
}

// reset forgets the counts.
func (p *profiler) reset() {
	p.tokens = 0
	for l := range p.counts {
		clear(p.counts[l])
		clear(p.sums[l])
	}
}

func (p *profiler) count(layer int, rows [][]float32) {
	counts, sums := p.counts[layer], p.sums[layer]
	parallel(p.threads, (len(counts)+countBlock-1)/countBlock, func(b int) {
		from, to := b*countBlock, min((b+1)*countBlock, len(counts))
		counts, sums := counts[from:to], sums[from:to]
		for _, a := range rows {
			for j, v := range a[from:to] {
				if v != 0 {
					counts[j]++
					sums[j] += math.Abs(float64(v))
				}
			}
		}
	})
}

// stats returns the counts.
func (p *profiler) stats() (*neuron.Stats, error) {
	s := &neuron.Stats{Tokens: p.tokens, Layers: p.counts}
	for l, sums := range p.sums {
		mass := make([]float32, len(sums))
		for j, v := range sums {
			mass[j] = float32(v * float64(p.norms[l][j]))
		}
		s.Mass = append(s.Mass, mass)
	}
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("the model's activations cannot be counted: %w", err)
	}
	return s, nil
}

// saveEvery is after how many steps the profile's state is written down.
const saveEvery = 8

// pass goes over n tokens of a text that an earlier run has evaluated.
func (p *profiler) pass(to role, n int) {
	for range n {
		p.plan[to].next()
	}
}

func (p *profiler) pause(paused bool) { p.idle = paused }

func (p *profiler) close() {
	if p.traces != nil {
		p.traces.close()
	}
}

// counter counts a model's activity on the texts.
type counter interface {
	model.Observer
	// step evaluates windows of one of the texts, and counts.
	step(r *runner, to role, ws []window) error
	// pass goes over n tokens of a text that an earlier run has evaluated.
	pass(to role, n int)
	// pause has nothing counted until it is called with false.
	pause(paused bool)
	// save stores the counts after this many steps, and load continues from there.
	save(w *work, steps int) error
	load(w *work) (steps int, err error)
	close()
}

// profile evaluates both texts, from where the work folder's state ends. progress gets tokens.
func profile(ctx context.Context, p counter, load func() (*runner, error), w *work, steps [roles][][]window, progress func(done, total int64)) error {
	var total, done int64
	for _, s := range steps {
		for _, ws := range s {
			total += int64(tokensOf(ws))
		}
	}
	begin, err := p.load(w)
	if err != nil {
		return err
	}
	defer p.close()
	at := 0
	for to, s := range steps {
		for _, ws := range s {
			n := tokensOf(ws)
			done += int64(n)
			at++
			if at <= begin {
				p.pass(role(to), n)
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			r, err := load()
			if err != nil {
				return err
			}
			if err := p.step(r, role(to), ws); err != nil {
				return err
			}
			if at%saveEvery == 0 {
				if err := p.save(w, at); err != nil {
					return err
				}
			}
			progress(done, total)
		}
	}
	return p.save(w, at)
}

// The profile's state: steps done, tokens counted, bytes of each trace and bytes left for them, counts, sums; sealed.

func (p *profiler) save(w *work, steps int) error {
	b := appendFields(nil, uint64(steps), p.tokens)
	for r := range roles {
		if p.traces != nil {
			b = appendFields(b, p.traces.size[r], p.traces.left[r])
		}
	}
	for l := range p.counts {
		b = appendFields(b, p.counts[l], p.sums[l])
	}
	return w.write(fileProfile, sealed(b))
}

// load restores the saved state, if there is one, and returns the steps done.
func (p *profiler) load(w *work) (steps int, err error) {
	b, ok, err := w.read(fileProfile)
	if err != nil {
		return 0, err
	}
	sampled := p.traces != nil
	var size [roles][]int64
	if ok {
		ok = false
		var done uint64
		if b, sound := unsealed(b); sound {
			b, ok = readFields(b, &done, &p.tokens)
			for r := range roles {
				if ok && sampled {
					size[r] = make([]int64, len(p.counts))
					b, ok = readFields(b, size[r], &p.traces.left[r])
				}
			}
			for l := range p.counts {
				if ok {
					b, ok = readFields(b, p.counts[l], p.sums[l])
				}
			}
			ok = ok && len(b) == 0
		}
		if !ok {
			return 0, w.damaged(fileProfile)
		}
		steps = int(done)
	}
	if !sampled {
		return steps, nil
	}
	left := p.traces.left
	if p.traces, err = openTraces(w, len(p.counts), size); err != nil {
		return 0, err
	}
	p.traces.left = left
	return steps, nil
}

// nearZero observes how close to zero activations are that never are zero.
type nearZero struct{ near, all float64 }

// nearZeroShare is the share of a token's largest magnitude below which an activation counts as near zero.
const nearZeroShare = 0.01

// FeedForward is model.Observer.
func (z *nearZero) FeedForward(_ int, s model.FFNStep) {
	for i := range s.Params.Tokens {
		a := s.Activations(i)
		top := float32(0)
		for _, v := range a {
			top = max(top, v, -v)
		}
		for _, v := range a {
			if max(v, -v) < nearZeroShare*top {
				z.near++
			}
		}
		z.all += float64(len(a))
	}
}

// errNoZeros is why a model cannot be prepared.
var errNoZeros = errors.New("no neuron is exactly zero, so that nothing can be skipped without changing answers; the file is left as it is")
