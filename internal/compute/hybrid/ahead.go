package hybrid

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/trace"
)

// While the host waits for the GPU's attention, its memory is idle. So the host reads ahead what it will compute with.
// In layers without a set it reads the gate rows, which every token needs. In mode predict it reads the neurons that
// the layer's predictor would choose from the previous layer's residual; the GPU computes that prediction while the
// host computes the previous layer's cold neurons. No result depends on the prediction.

// Ahead says whether the host reads ahead.
type Ahead int

// Whether it does.
const (
	IfIdle Ahead = iota // where cores and memory are idle: Recorder.Idles
	Never
	Always
)

// ReadAhead sets whether the host reads ahead. The default is IfIdle.
func (d *Device) ReadAhead(a Ahead) { d.ahead = a }

// guessed is a prediction that the GPU downloads.
type guessed struct {
	up    *compute.Matrix // the up matrix of the predicted layer
	words func() (words []uint32, perRow int)
}

// idle reports whether the host, or the disk, is idle during waits, so that it may read ahead.
func (r *router) idle() bool {
	return r.d.ahead != Never && (r.d.ahead == Always || r.d.onDisk || r.gpu.Idles())
}

// Foresee keeps g for this layer's SparseFFN.
func (r *router) Foresee(g compute.Guess) { r.guess = &g }

// guessable returns the prediction of the layer after w's, if the GPU can make one that the host can use.
func (r *router) guessable(x compute.Tensor) *compute.Guess {
	g := r.guess
	r.guess = nil
	if g == nil || x.Rows != 1 || !r.idle() {
		return nil
	}
	up := mem(g.Weights.Up)
	if up.gpu == nil || up.host == nil || !onGPU(g.FC1) || !onGPU(g.FC2) || !g.X.Mem.(*tensor).onGPU {
		return nil
	}
	return g
}

// makeGuess records the prediction on the GPU, after the hot neurons.
func (r *router) makeGuess(g *compute.Guess) {
	on := *g
	on.Visit(toGPU{})
	in := on.X
	if g.Norm != nil {
		in = on.H
		r.gpu.Do(&compute.RMSNorm{Dst: in, X: on.X, W: on.Norm, Eps: g.Eps})
		written(g.H, false)
	}
	r.gpu.Do(&compute.Predict{Set: on.Set, X: in, Hidden: on.Hidden, Logits: on.Logits, FC1: on.FC1, FC2: on.FC2})
	sets(g.Set).onGPU = false
	r.guessed = &guessed{g.Weights.Up, r.gpu.DownloadSet(on.Set)}
}

// readAhead makes the host read cold, the neurons of f from hot on, while it waits for its turn to compute them.
func (r *router) readAhead(x compute.Tensor, s compute.Set, f compute.SparseWeights, cold compute.SparseWeights, hot int) {
	known := r.guessed
	r.guessed = nil
	if x.Rows != 1 || !r.idle() {
		return
	}
	rest, log := compute.Set{Rows: 1, N: f.Up.Rows - hot}, r.d.trace
	read := func(done func() bool) {
		from := log.Now()
		r.d.host.ReadAhead(rest, cold, done)
		log.Span(trace.Host, "read ahead", from)
	}
	if s.Mem == nil {
		r.gpu.Meanwhile(func(_, done func() bool) { read(done) })
		return
	}
	if known == nil || known.up != f.Up {
		return
	}
	early, err := r.d.earlySet(f.Up.Rows)
	if err != nil {
		r.fail(err)
		return
	}
	rest.Mem = early.Mem
	r.gpu.Meanwhile(func(ready, done func() bool) {
		for !ready() {
			if done() {
				return
			}
		}
		words, perRow := known.words()
		r.d.host.FillSet(rest, words, perRow, hot)
		read(done)
	})
}

// earlySet is host memory for predictions of up to n neurons: layers take turns.
func (d *Device) earlySet(n int) (compute.Set, error) {
	if d.early.N >= n {
		return d.early, nil
	}
	var err error
	d.early, err = d.host.Set(1, n)
	return d.early, err
}
