package hybrid

import "github.com/powerinfer-go/powerinfer/internal/compute"

// choice is a choice's memory on both devices, and where its content is.
type choice struct {
	gpu, host compute.Choice
	whereabouts
}

// Choice allocates choices on both devices.
func (d *Device) Choice(rows, used, n int) (compute.Choice, error) {
	host, err := d.host.Choice(rows, used, n)
	if err != nil {
		return compute.Choice{}, err
	}
	return d.choice(host)
}

// choice returns choices on both devices that use host's memory on the host.
func (d *Device) choice(host compute.Choice) (compute.Choice, error) {
	gpu, err := d.gpu.Choice(host.Rows, host.Used, host.N)
	if err != nil {
		return compute.Choice{}, d.ofGPU(err)
	}
	return compute.Choice{Rows: host.Rows, Used: host.Used, N: host.N, Mem: &choice{gpu: gpu, host: host}}, nil
}

func choiceOf(c compute.Choice) *choice { return c.Mem.(*choice) }

func choiceView(c, memory compute.Choice) compute.Choice {
	c.Mem = memory.Mem
	return c
}

func gpuChoice(c compute.Choice) compute.Choice  { return choiceView(c, choiceOf(c).gpu) }
func hostChoice(c compute.Choice) compute.Choice { return choiceView(c, choiceOf(c).host) }

// choiceToGPU copies c, which may be nil, to the GPU.
func (r *router) choiceToGPU(c *compute.Choice) {
	if c == nil || choiceOf(*c).onGPU {
		return
	}
	r.meet(nil)
	choiceOf(*c).onGPU = true
	from, to := hostChoice(*c), r.gpu.UploadChoice(gpuChoice(*c))
	r.last.stores = append(r.last.stores, func(w *window) { r.d.host.ChoiceData(w.choice(from), w.chosen(from, to())) })
}

// choiceToHost makes c, which may be nil, available in the host's memory.
func (r *router) choiceToHost(c *compute.Choice) {
	if c == nil || choiceOf(*c).onHost {
		return
	}
	choiceOf(*c).onHost = true
	to, from := hostChoice(*c), r.gpu.DownloadChoice(gpuChoice(*c))
	s := r.stretch()
	s.loads = append(s.loads, func(w *window) { r.d.host.FillChoice(w.choice(to), w.chosen(to, from())) })
}

// experts computes each expert where its weights are, on both processors at the same time.
func (r *router) experts(o *compute.Experts) {
	up := mem(o.Weights.Up)
	switch {
	case up.host != nil && r.streamExperts(o):
	case up.host == nil:
		r.foreseen = nil // nobody has the time
		r.whole(o)
	case up.gpu == nil:
		r.expect()
		r.whole(o)
	default:
		r.bothExperts(o)
	}
}

// bothExperts makes the GPU compute the experts that it holds, while the host computes the others from RAM. The GPU
// then adds the host's sum to its own.
func (r *router) bothExperts(o *compute.Experts) {
	hot, cold := r.split(&o.Weights, o.Choice)
	sums, err := r.partialSums(o.Out, compute.Tensor{})
	if err != nil {
		r.fail(err)
		return
	}
	count := o.Weights.Count
	r.toGPU(o.X)
	r.choiceToGPU(&o.Choice)
	r.toHost(o.X)
	r.choiceToHost(&o.Choice)
	r.expect()
	r.onHost(&compute.Experts{Out: sums[0].host, X: hostTensor(o.X), Choice: hostChoice(o.Choice), Weights: cold}, o.Weights.Up)
	work := r.stretch()
	r.meet(func() {
		r.gpu.Do(&compute.Experts{Out: gpuTensor(o.Out), X: gpuTensor(o.X), Choice: gpuChoice(o.Choice), Weights: hot})
	})
	work.stores = append(work.stores, func(*window) { count.Join(cold.Count) })
	r.addPartial(work, sums[0])
}

// split returns the weights of the experts that the GPU holds, and of those that the host holds. Only the host counts
// choices (Bins). It counts neurons separately, and its count is joined to the GPU's.
func (r *router) split(w *compute.ExpertWeights, c compute.Choice) (hot, cold compute.ExpertWeights) {
	n := c.N
	held := mem(w.Down).hot / (w.Down.Rows / n)
	hot, cold = *w, *w
	hot.Bins, cold.Count = nil, &compute.NeuronCount{}
	switch y := r.slotsOf(w, c); {
	case y != nil:
		hot.Table, cold.Table, cold.Bins = &y.gpu, &y.host, &y.bins
	case mem(w.Down).slots: // what may change does not
		hot.Table, cold.Table = compute.NewExpertTable(n, 0, held), compute.NewExpertTable(n, 0, n)
		for e := range held {
			cold.Table.At[e] = compute.Absent
		}
	default:
		hot.Table, cold.Table = compute.NewExpertTable(n, 0, held), compute.NewExpertTable(n, held, n-held)
	}
	for _, m := range []struct{ of, hot, cold **compute.Matrix }{{&w.Up, &hot.Up, &cold.Up}, {&w.Gate, &hot.Gate, &cold.Gate}, {&w.Down, &hot.Down, &cold.Down}, {&w.FC1, &hot.FC1, &cold.FC1}, {&w.FC2, &hot.FC2, &cold.FC2}} {
		if *m.of != nil {
			*m.hot, *m.cold = mem(*m.of).gpu, mem(*m.of).host
		}
	}
	hot.GateBias, hot.UpBias, hot.DownBias = gpuVector(w.GateBias), gpuVector(w.UpBias), gpuVector(w.DownBias)
	cold.GateBias, cold.UpBias, cold.DownBias = hostVector(w.GateBias), hostVector(w.UpBias), hostVector(w.DownBias)
	return hot, cold
}
