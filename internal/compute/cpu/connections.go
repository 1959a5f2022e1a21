package cpu

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// connections is the state of the operations of hyper-connections. Workers share a token's columns.
type connections struct {
	d              *Device
	readFn, addFn  func(chunk, worker int)
	weightsFn      func(chunk, worker int)
	weights        *compute.ConnectionWeights
	out, x, w      compute.Tensor // [n, width], [n, streams·width], weights
	streams, parts int            // parts of a token's columns
}

// streamColumns is the number of columns of a part: some microseconds' work.
const streamColumns = 1024

func (c *connections) init(d *Device) {
	c.d = d
	c.readFn, c.addFn, c.weightsFn = c.read, c.add, c.weigh
}

// ConnectionWeights makes weights of products.
func (d *Device) ConnectionWeights(o *compute.ConnectionWeights) {
	if !o.Fits() {
		panic("cpu: ConnectionWeights of shapes that do not fit")
	}
	d.connections.weights = o
	d.pool.Run((o.W.Rows+routeRows-1)/routeRows, d.connections.weightsFn)
}

func (c *connections) weigh(chunk, _ int) {
	o := c.weights
	for t := chunk * routeRows; t < min(o.W.Rows, (chunk+1)*routeRows); t++ {
		connectionWeights(row(o.W, t), vector(o.Scale), vector(o.Base), &o.How)
	}
}

// connectionWeights computes ConnectionWeights of a row.
func connectionWeights(w, scale, base []float32, how *compute.Connections) {
	c := how.Streams
	for i := range w {
		w[i] = w[i]*scale[min(i/c, 2)] + base[i]
	}
	sigmoid := func(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }
	for i, v := range w[:c] {
		w[i] = sigmoid(v) + how.Eps
	}
	if len(w) == c {
		return
	}
	for i, v := range w[c : 2*c] {
		w[c+i] = how.Written*sigmoid(v) + how.Floor
	}
	if len(w) > 2*c {
		balance(w[2*c:], c, how.Rounds, how.Eps)
	}
}

// balance makes each row of mix [c, c] its softmax plus eps, and then brings the sums of columns and rows near 1.
func balance(mix []float32, c, rounds int, eps float32) {
	for from := range c {
		of := mix[from*c:][:c]
		top, sum := of[0], float32(0)
		for _, v := range of {
			top = max(top, v)
		}
		for i, v := range of {
			of[i] = float32(math.Exp(float64(v - top)))
			sum += of[i]
		}
		for i := range of {
			of[i] = of[i]/sum + eps
		}
	}
	for round := range rounds {
		if round > 0 {
			divided(mix, c, 1, c, eps)
		}
		divided(mix, c, c, 1, eps)
	}
}

// divided divides the elements of each of c lists by their sum plus eps. Elements are step apart, and lists begin next
// apart.
func divided(mix []float32, c, step, next int, eps float32) {
	for i := range c {
		sum := eps
		for j := range c {
			sum += mix[i*next+j*step]
		}
		for j := range c {
			mix[i*next+j*step] /= sum
		}
	}
}

// ReadStreams sums the streams.
func (d *Device) ReadStreams(o *compute.ReadStreams) {
	if !o.Fits() {
		panic("cpu: ReadStreams of shapes that do not fit")
	}
	d.connections.run(o.Out, o.X, o.W, o.Streams, d.connections.readFn)
}

// WriteStreams adds y to the streams, which it mixes.
func (d *Device) WriteStreams(o *compute.WriteStreams) {
	if !o.Fits() {
		panic("cpu: WriteStreams of shapes that do not fit")
	}
	d.connections.run(o.Y, o.X, o.W, o.Streams, d.connections.addFn)
}

func (c *connections) run(narrow, x, w compute.Tensor, streams int, f func(chunk, worker int)) {
	c.out, c.x, c.w, c.streams = narrow, x, w, streams
	c.parts = (narrow.Cols + streamColumns - 1) / streamColumns
	c.d.pool.Run(narrow.Rows*c.parts, f)
}

// part returns the operands of a chunk: a token's weights, and some columns of its narrow row and of its streams.
func (c *connections) part(chunk int, streams *[compute.MostStreams][]float32) (w, narrow []float32) {
	t, first := chunk/c.parts, chunk%c.parts*streamColumns
	n := min(streamColumns, c.out.Cols-first)
	x := row(c.x, t)
	for s := range c.streams {
		streams[s] = x[s*c.out.Cols+first:][:n]
	}
	return row(c.w, t), row(c.out, t)[first:][:n]
}

func (c *connections) read(chunk, _ int) {
	var streams [compute.MostStreams][]float32
	w, out := c.part(chunk, &streams)
	for s, x := range streams[:c.streams] {
		by := w[s]
		if s == 0 {
			for i, v := range x {
				out[i] = by * v
			}
			continue
		}
		for i, v := range x {
			out[i] += by * v
		}
	}
}

func (c *connections) add(chunk, _ int) {
	var streams [compute.MostStreams][]float32
	w, y := c.part(chunk, &streams)
	n := c.streams
	if len(w) <= 2*n {
		w = w[len(w)-n:]
		for s, x := range streams[:n] {
			by := w[s]
			for i, v := range y {
				x[i] += by * v
			}
		}
		return
	}
	var old [compute.MostStreams]float32
	mix := w[2*n:]
	for i, v := range y {
		for s := range n {
			old[s] = streams[s][i]
		}
		for to := range n {
			sum := w[n+to] * v
			for s := range n {
				sum += mix[n*s+to] * old[s]
			}
			streams[to][i] = sum
		}
	}
}
