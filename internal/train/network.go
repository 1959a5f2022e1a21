package train

import (
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/compute/cpu/gemm"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// weights are those of logits = fc2·relu(fc1·x). Unit 0 of the hidden layer is nearly 1 for every input, so column 0 of
// fc2 replaces a bias, which the file format lacks; its row of fc1 is not trained.
type weights struct {
	rank int
	fc1  []float32 // [rank, n_embd], of inputs multiplied by layer.scale
	fc2  []float32 // [n, rank]
}

func (w *weights) clone() weights {
	return weights{w.rank, slices.Clone(w.fc1), slices.Clone(w.fc2)}
}

// batch is the memory of one step of up to rows samples.
type batch struct {
	rows   int
	x      []float32 // [rows, n_embd]
	hidden []float32 // [rows, rank]
	logits []float32 // [rows, n]; the loss replaces them by their gradients
	dh     []float32 // [rows, rank]
	grad1  []float32 // [rank, n_embd]
	grad2  []float32 // [n, rank]
}

func (l *layer) newBatch(rows, rank int) *batch {
	return &batch{
		rows: rows, x: make([]float32, rows*l.embd), hidden: make([]float32, rows*rank), logits: make([]float32, rows*l.n),
		dh: make([]float32, rows*rank), grad1: make([]float32, rank*l.embd), grad2: make([]float32, l.n*rank),
	}
}

// load fills x [len(samples), n_embd] with scaled inputs.
func (l *layer) load(x []float32, samples []int32) {
	l.pool.Run(len(samples), func(i, _ int) {
		row := x[i*l.embd:][:l.embd]
		l.vec.FromF16(row, l.s.x(int(samples[i])))
		l.vec.Mul(row, l.scale)
	})
}

// forward computes hidden and logits [n samples] of x.
func (l *layer) forward(w *weights, x, hidden, logits []float32, n int) {
	h := gemm.New(hidden, n, w.rank)
	l.mul.Mul(h, 1, gemm.New(x, n, l.embd), gemm.New(w.fc1, w.rank, l.embd).T(), false)
	l.pool.Run(n, func(i, _ int) {
		row := hidden[i*w.rank:][:w.rank]
		for j, v := range row {
			row[j] = max(v, 0)
		}
	})
	l.mul.Mul(gemm.New(logits, n, l.n), 1, h, gemm.New(w.fc2, l.n, w.rank).T(), false)
}

// gradients leaves the mean loss's gradients in b.
func (l *layer) gradients(w *weights, b *batch, samples []int32, positive float32) {
	n := len(samples)
	l.load(b.x, samples)
	l.forward(w, b.x, b.hidden, b.logits, n)
	l.lossGradients(b.logits, samples, positive)
	h, dz, dh := gemm.New(b.hidden, n, w.rank), gemm.New(b.logits, n, l.n), gemm.New(b.dh, n, w.rank)
	mean := 1 / float32(n)
	l.mul.Mul(gemm.New(b.grad2, l.n, w.rank), mean, dz.T(), h, false)
	l.mul.Mul(dh, 1, dz, gemm.New(w.fc2, l.n, w.rank), false)
	l.pool.Run(n, func(i, _ int) {
		d := b.dh[i*w.rank:][:w.rank]
		for j, v := range b.hidden[i*w.rank:][:w.rank] {
			if v == 0 {
				d[j] = 0
			}
		}
	})
	l.mul.Mul(gemm.New(b.grad1, w.rank, l.embd), mean, dh.T(), gemm.New(b.x, n, l.embd), false)
}

// lossGradients turns logits z into the gradients of the weighted binary cross-entropy
//
//	Σ_active  p·w·log(1+e^-z) + Σ_inactive log(1+e^z)
//
// with p the weight of positives and w that of the neuron's mass in this sample.
func (l *layer) lossGradients(logits []float32, samples []int32, positive float32) {
	l.pool.Run(len(samples), func(i, _ int) {
		z := logits[i*l.n:][:l.n]
		for j, v := range z {
			z[j] = -v
		}
		l.vec.Exp(z, z)
		for j, e := range z {
			z[j] = 1 / (1 + e)
		}
		mass := l.s.mass(int(samples[i]))
		for j, a := range l.s.active(int(samples[i])) {
			if row := l.row[a]; row >= 0 {
				z[row] = positive * l.massWeight(mass[j]) * (z[row] - 1)
			}
		}
	})
}

// Bounds of a mass's weight: the lower keeps the count accurate, the upper keeps a few outliers from being all that
// counts.
const (
	minMassWeight = 0.1
	maxMassWeight = 8
)

// massWeight returns a neuron's mass relative to the mean of active ones, within bounds.
func (l *layer) massWeight(mass uint16) float32 {
	return min(max(quant.F32FromBF16(mass)/l.meanMass, minMassWeight), maxMassWeight)
}
