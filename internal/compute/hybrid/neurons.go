package hybrid

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// sets returns s's memory; nil if s is all neurons.
func sets(s compute.Set) *set {
	if s.Mem == nil {
		return nil
	}
	return s.Mem.(*set)
}

func setView(s, memory compute.Set) compute.Set {
	s.Mem = memory.Mem
	return s
}

func (r *router) setsToGPU(all []compute.Set) {
	for _, s := range all {
		r.setToGPU(s)
	}
}

func (r *router) setsToHost(all []compute.Set) {
	for _, s := range all {
		r.setToHost(s)
	}
}

// setToGPU has the GPU's memory hold s.
func (r *router) setToGPU(s compute.Set) {
	m := sets(s)
	if m == nil || m.onGPU {
		return
	}
	r.meet(nil)
	m.onGPU = true
	to, from := r.gpu.UploadSet(setView(s, m.gpu)), setView(s, m.host)
	r.last.stores = append(r.last.stores, func(w *window) {
		words, perRow := to()
		r.d.host.SetWords(w.set(from), w.words(from, words), perRow)
	})
}

// setToHost makes s available in the host's memory.
func (r *router) setToHost(s compute.Set) {
	m := sets(s)
	if m == nil || m.onHost {
		return
	}
	m.onHost = true
	r.loadSet(r.gpu.DownloadSet(setView(s, m.gpu)), setView(s, m.host), 0)
}

// loadSet fills to with the neurons of a set that the GPU has downloaded, counted from first.
func (r *router) loadSet(from func() ([]uint32, int), to compute.Set, first int) {
	s := r.stretch()
	s.loads = append(s.loads, func(w *window) {
		words, perRow := from()
		r.d.host.FillSet(w.set(to), w.words(to, words), perRow, first)
	})
}

// sparseFFN computes each neuron where its weights are, on both processors at the same time.
func (r *router) sparseFFN(o *compute.SparseFFN) {
	up := mem(o.Weights.Up)
	guess := r.guessable(o.X)
	switch {
	case up.host == nil:
		r.whole(o)
	case o.Weights.Cut == nil && !o.Weights.Hot && !o.Weights.Adapter.Any() && r.stream(o.Out, o.X, o.Set, o.Weights):
	case up.gpu == nil:
		r.whole(o)
	case o.Weights.Hot:
		r.hot(o.Out, o.X, o.Set, o.Weights)
	default:
		r.both(o.Out, o.X, o.Set, o.Weights, guess)
	}
}

func gpuSet(s compute.Set) compute.Set {
	if m := sets(s); m != nil {
		return setView(s, m.gpu)
	}
	return s
}

func hostSet(s compute.Set) compute.Set {
	if m := sets(s); m != nil {
		return setView(s, m.host)
	}
	return s
}

func gpuWeights(f compute.SparseWeights) compute.SparseWeights {
	f.Up, f.Down = mem(f.Up).gpu, mem(f.Down).gpu
	if f.Gate != nil {
		f.Gate = mem(f.Gate).gpu
	}
	f.UpBias, f.DownBias = gpuVector(f.UpBias), gpuVector(f.DownBias)
	move(&f.Adapter, toGPU{})
	return f
}

// move replaces a's operands as v does.
func move(a *compute.NeuronAdapter, v compute.Visitor) {
	for _, m := range []**compute.Matrix{&a.GateB, &a.UpB, &a.DownA} {
		v.Matrix(m)
	}
	for _, t := range []*compute.Tensor{&a.GateLow, &a.UpLow, &a.DownLow} {
		v.Tensor(t, compute.ReadWrite)
	}
}

// hostWeights leaves out the bias of down, which is added once, and the count.
func hostWeights(f compute.SparseWeights) compute.SparseWeights {
	w := compute.SparseWeights{Up: mem(f.Up).host, Down: mem(f.Down).host, UpBias: hostVector(f.UpBias), Act: f.Act}
	if f.Gate != nil {
		w.Gate = mem(f.Gate).host
	}
	w.Adapter = f.Adapter
	move(&w.Adapter, toHost{})
	return w
}

// hot computes only the hot neurons. The host has no turn.
func (r *router) hot(out, x compute.Tensor, s compute.Set, f compute.SparseWeights) {
	hot := mem(f.Up).hot
	warm, err := gpuWeights(f), error(nil)
	if warm.UpBias, err = part(f.UpBias, r.d.gpu, 0, hot); err != nil {
		r.fail(err)
		return
	}
	r.toGPU(x, f.Adapter.GateLow, f.Adapter.UpLow)
	r.setToGPU(s)
	set := gpuSet(s)
	if set.Mem == nil {
		set.N = hot
	}
	r.gpu.Do(&compute.SparseFFN{Out: gpuTensor(out), X: gpuTensor(x), Set: set, Weights: warm})
	written(out, true)
	if low := f.Adapter.DownLow; low.Mem != nil {
		written(low, true)
	}
}

// both computes hot neurons on the GPU while the host computes cold ones, and adds the host's sum to the GPU's.
func (r *router) both(out, x compute.Tensor, s compute.Set, f compute.SparseWeights, guess *compute.Guess) {
	hot, n := mem(f.Up).hot, f.Up.Rows
	warm, cold := gpuWeights(f), hostWeights(f)
	cold.Count, cold.Bins, cold.First = &compute.NeuronCount{}, f.Bins, hot
	sums, err := r.partialSums(out, f.Adapter.DownLow)
	if err == nil {
		warm.UpBias, err = part(f.UpBias, r.d.gpu, 0, hot)
	}
	if err == nil {
		cold.UpBias, err = part(f.UpBias, r.d.host, hot, n)
	}
	if err != nil {
		r.fail(err)
		return
	}
	r.toGPU(x, f.Adapter.GateLow, f.Adapter.UpLow)
	r.setToGPU(s)
	r.toHost(x, f.Adapter.GateLow, f.Adapter.UpLow)
	rest := r.cold(s, hot, n, f.Bins)
	if len(sums) > 1 {
		cold.Adapter.DownLow = sums[1].host
	}
	r.onHost(&compute.SparseFFN{Out: sums[0].host, X: hostTensor(x), Set: rest, Weights: cold}, f.Up)
	work := r.stretch()
	r.readAhead(x, s, f, cold, hot)
	r.meet(func() {
		set := gpuSet(s)
		if set.Mem == nil {
			set.N = hot
		}
		r.gpu.Do(&compute.SparseFFN{Out: gpuTensor(out), X: gpuTensor(x), Set: set, Weights: warm})
		if guess != nil {
			r.makeGuess(guess)
		}
	})
	work.stores = append(work.stores, func(*window) { f.Count.Join(cold.Count) })
	for _, y := range sums {
		r.addPartial(work, y)
	}
}

// partialSum is a tensor that both processors compute a part of, and memory for the host's part.
type partialSum struct{ of, host, gpu compute.Tensor }

// partialSums returns the partial sums of a layer's outputs: out, and its adapter's narrow product low, if it has one.
func (r *router) partialSums(out, low compute.Tensor) ([]partialSum, error) {
	var sums []partialSum
	for i, t := range []compute.Tensor{out, low} {
		if t.Mem == nil {
			continue
		}
		p, err := r.d.partial(t.Cols, i)
		if err != nil {
			return nil, err
		}
		sums = append(sums, partialSum{t, viewed(t, p.host), viewed(t, p.gpu)})
	}
	return sums, nil
}

// addPartial brings what the host computes in work to the GPU, which adds it to its own part.
func (r *router) addPartial(work *stretch, y partialSum) {
	to := r.gpu.Upload(y.gpu)
	work.stores = append(work.stores, func(w *window) { copy(w.floats(y.host, to()), r.d.host.Data(y.host)) })
	r.gpu.Do(&compute.Add{Dst: gpuTensor(y.of), X: y.gpu})
	written(y.of, true)
}

// cold returns the host's set of the neurons of s from hot on, counted from there. Those before hot are counted in b.
func (r *router) cold(s compute.Set, hot, n int, b *compute.NeuronBins) compute.Set {
	m := sets(s)
	if m == nil {
		return compute.Set{Rows: s.Rows, N: n - hot, Outputs: s.Outputs}
	}
	to := compute.Set{Rows: s.Rows, N: n - hot, Outputs: s.Outputs, Mem: m.cold.Mem}
	if !m.onHost {
		from := r.gpu.DownloadSet(setView(s, m.gpu))
		r.loadSet(from, to, hot)
		work := r.stretch()
		work.loads = append(work.loads, func(w *window) {
			if b != nil && b.On {
				words, perRow := from()
				b.AddBits(w.words(s, words), perRow, w.rows(s.Outputs).n, hot)
			}
		})
		return to
	}
	perRow := (n + 31) / 32
	if len(m.words) < s.Rows*perRow {
		m.words = make([]uint32, s.Rows*perRow)
	}
	words, all, host := m.words, setView(s, m.host), r.d.host
	work := r.stretch()
	work.loads = append(work.loads, func(w *window) {
		host.SetWords(w.set(all), words, perRow)
		host.FillSet(w.set(to), words, perRow, hot)
		if b != nil && b.On {
			b.AddBits(words, perRow, w.rows(s.Outputs).n, hot)
		}
	})
	return to
}
