package model

import (
	"math"

	"github.com/powerinfer-go/powerinfer/internal/nn"
)

// Head holds weights of embedding models and rerankers that follow pooling: projections of the pooled state, and a
// classification head. They are in the host's memory, because each text uses them only once. The zero value has
// neither.
type Head struct {
	dense  []table // one after the other
	class  layer   // before the output, or none
	norm   []float32
	output layer // has as many outputs as there are labels, or is empty

	gelu    bool // class's activation is GELU; else tanh
	softmax bool
	eps     float32
	// Labels are the names of the classification head's numbers, if the file has them.
	Labels []string
	// Pooling names the state that the classification head reads: mean, cls or last.
	Pooling nn.Pooling
}

// layer is a product with a bias, which may be nil.
type layer struct {
	table
	bias []float32 // [rows]
}

// table is a matrix [rows, cols] in the host's memory.
type table struct {
	rows, cols int
	data       []float32
}

// bind reads the head's tensors and keys, as far as the file has them.
func (h *Head) bind(b *nn.Binder, c *Config, rank nn.Ranking) {
	h.gelu, h.softmax, h.eps, h.Pooling = rank.GELU, rank.Softmax, c.Eps, rank.Pooling
	width := c.Embd
	for _, name := range []string{"dense_2.weight", "dense_3.weight"} { // as Sentence Transformers' folders number their modules
		if t := hostTable(b, name, width); t.data != nil {
			h.dense = append(h.dense, t)
			width = t.rows
		}
	}
	width = c.Embd
	if h.class = hostLayer(b, "cls", width); h.class.data != nil {
		width = h.class.rows
	}
	if b.Has("cls.norm.weight") {
		h.norm = b.Floats("cls.norm.weight", width)
	}
	h.output = hostLayer(b, "cls.output", width)
	keys := &nn.Keys{File: b.File}
	if v, ok, err := b.File.Strings(c.Arch + ".classifier.output_labels"); err == nil && ok {
		h.Labels = v
	}
	h.Pooling = nn.Pooling(keys.Text(nn.RankPoolingKey, string(h.Pooling)))
	if h.Pooling == "" {
		h.Pooling = nn.PoolLast
	}
	if !h.Pooling.Single() {
		keys.Fail("key %q: %q is none of %s, %s and %s", nn.RankPoolingKey, h.Pooling, nn.PoolMean, nn.PoolCLS, nn.PoolLast)
	}
	if b.Err == nil {
		b.Err = keys.Err
	}
}

// hostLayer returns the product name with its bias, each if the file has it.
func hostLayer(b *nn.Binder, name string, cols int) layer {
	l := layer{table: hostTable(b, name+".weight", cols)}
	if l.data != nil && b.Has(name+".bias") {
		l.bias = b.Floats(name+".bias", l.rows)
	}
	return l
}

// hostTable returns the matrix name, if the file has it.
func hostTable(b *nn.Binder, name string, cols int) table {
	data := b.Table(name, cols)
	return table{len(data) / cols, cols, data}
}

// Ranks reports whether there is a classification head.
func (h *Head) Ranks() bool { return h.class.data != nil || h.output.data != nil }

// Width returns the number of elements of an embedding of states of embd elements.
func (h *Head) Width(embd int) int {
	if len(h.dense) > 0 {
		return h.dense[len(h.dense)-1].rows
	}
	return embd
}

// Project returns the embedding of a pooled state.
func (h *Head) Project(x []float32) []float32 {
	for _, t := range h.dense {
		x = t.times(x)
	}
	return x
}

// Rank returns the classification head's numbers, one for each label, of a pooled state.
func (h *Head) Rank(x []float32) []float32 {
	if h.class.data != nil {
		x = h.class.apply(x)
		for i, v := range x {
			x[i] = h.bend(v)
		}
		if h.norm != nil {
			layerNorm(x, h.norm, h.eps)
		}
	}
	if h.output.data != nil {
		x = h.output.apply(x)
	}
	if h.softmax {
		softmax(x)
	}
	return x
}

// bend applies the nonlinearity between the two products.
func (h *Head) bend(x float32) float32 {
	v := float64(x)
	if h.gelu {
		return float32(0.5 * v * (1 + math.Erf(v/math.Sqrt2)))
	}
	return float32(math.Tanh(v))
}

func (l *layer) apply(x []float32) []float32 {
	out := l.times(x)
	for i, v := range l.bias {
		out[i] += v
	}
	return out
}

// times returns the products of t's rows with x. [rows]
func (t *table) times(x []float32) []float32 {
	out := make([]float32, t.rows)
	for r := range out {
		out[r] = dot(t.data[r*t.cols:][:t.cols], x)
	}
	return out
}

// dot sums in eight parts, so that a sum need not wait for the one before it.
func dot(a, b []float32) float32 {
	var s [8]float32
	n := len(a) &^ 7
	for i := 0; i < n; i += 8 {
		x, y := a[i:i+8:i+8], b[i:i+8:i+8]
		s[0] += x[0] * y[0]
		s[1] += x[1] * y[1]
		s[2] += x[2] * y[2]
		s[3] += x[3] * y[3]
		s[4] += x[4] * y[4]
		s[5] += x[5] * y[5]
		s[6] += x[6] * y[6]
		s[7] += x[7] * y[7]
	}
	for i := n; i < len(a); i++ {
		s[0] += a[i] * b[i]
	}
	return s[0] + s[1] + s[2] + s[3] + (s[4] + s[5] + s[6] + s[7])
}

func layerNorm(x, w []float32, eps float32) {
	var mean, square float64
	for _, v := range x {
		mean += float64(v) / float64(len(x))
	}
	for _, v := range x {
		square += (float64(v) - mean) * (float64(v) - mean) / float64(len(x))
	}
	root := math.Sqrt(square + float64(eps))
	for i, v := range x {
		x[i] = float32((float64(v)-mean)/root) * w[i]
	}
}

func softmax(x []float32) {
	top, sum := float32(math.Inf(-1)), 0.0
	for _, v := range x {
		top = max(top, v)
	}
	for _, v := range x {
		sum += math.Exp(float64(v - top))
	}
	for i, v := range x {
		x[i] = float32(math.Exp(float64(v-top)) / sum)
	}
}
