package synth

import (
	"fmt"
	"math"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/lineage"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// rowNoise is the deviation of the noise that keeps weights from being of exactly low rank, as a share of the weights'
// own.
const rowNoise = 0.1

// fill writes row i of a matrix. It is called from several goroutines; scratch [space.k] is the caller's own.
type fill func(i int, row, scratch []float32)

// model lists a file's tensors.
type model struct {
	Spec
	fam   lineage.Family
	space space
	law   law
	key   key
	out   []gguf.Source

	shapes map[string][]int // shapes of the family's tensors by name, outermost dimension first; see list

	scales  scales
	factors []func() // list the factors of matrices of NVFP4
}

// scales are the factors of activations that the engine applies, and that weights make up for.
type scales struct{ embedding, residual, logits float64 }

// scalesOf returns the scales of a family's synthetic models.
func scalesOf(f lineage.Family, layers, embd int) scales {
	if f.Factors != nil {
		of := f.Factors(layers, embd)
		return scales{of.Embedding, of.Residual, of.Logits}
	}
	if f.ScaledInput {
		return scales{embedding: math.Sqrt(float64(embd)), residual: 1, logits: 1}
	}
	if f.ScaledLogits {
		return scales{embedding: 1, residual: 1, logits: 0.0625}
	}
	if f.Multipliers {
		return scales{embedding: 8, residual: 0.25, logits: 0.125}
	}
	return scales{embedding: 1, residual: 1, logits: 1}
}

func newModel(s Spec) *model {
	fam, _ := lineage.Named(s.Arch)
	return &model{Spec: s, fam: fam, space: newSpace(s.Embd), law: newLaw(s, fam.Gated), key: key(mix(s.Seed + golden)), scales: scalesOf(fam, s.Layers, s.Embd)}
}

// stream returns a tensor's random numbers, the same in both orientations.
func (m *model) stream(name string) key {
	return m.key.named(strings.Replace(name, "ffn_down_t.", "ffn_down.", 1))
}

// matrix lists a tensor [rows, cols] of the model's type.
func (m *model) matrix(name string, rows, cols int, f fill) {
	if m.Type == quant.NVFP4 && name != "token_embd.weight" {
		f = m.divided(name, rows, f)
	}
	m.out = append(m.out, source(name, m.Type, rows, cols, m.space.k, f))
}

// divided is fill for a matrix of NVFP4 with a separate factor, or for stacked matrices with a factor each. Published
// models have such factors, and the scales of blocks are too coarse for weights as small as these.
func (m *model) divided(name string, rows int, f fill) fill {
	n := 1
	if strings.Contains(name, "_exps.") {
		n = m.Experts
	}
	k := m.stream(name).sub(2)
	factor := func(e int) float32 { return float32(4+k.bits(e)%4) / 2048 }
	m.factors = append(m.factors, func() { m.vector(strings.TrimSuffix(name, ".weight")+".scale", n, factor) })
	return func(i int, row, scratch []float32) {
		f(i, row, scratch)
		by := factor(i / (rows / n))
		for j := range row {
			row[j] /= by
		}
	}
}

// vector lists a tensor [n] of F32: v(i) for each element.
func (m *model) vector(name string, n int, v func(i int) float32) {
	src := source(name, quant.F32, 1, n, m.space.k, func(_ int, row, _ []float32) {
		for i := range row {
			row[i] = v(i)
		}
	})
	src.Shape = []int{n}
	m.out = append(m.out, src)
}

// random lists a vector of the given mean and deviation.
func (m *model) random(name string, n int, mean, deviation float32) {
	k := m.stream(name)
	m.vector(name, n, func(i int) float32 { return mean + float32(deviation*k.normal(i)) })
}

// norm lists a norm's weight, and its bias if the family has one.
func (m *model) norm(name string) {
	if m.fam.BareNorms {
		return
	}
	stem := name[strings.LastIndexByte(name, '.')+1:] // in blocks after "blk.N."
	m.random(strings.TrimSuffix(name, stem)+m.fam.NormWeight(stem), m.Embd, 1, 0.02)
	_, inBlock := m.fam.InBlock(stem + ".bias")
	if _, outside := m.fam.Outside(stem + ".bias"); inBlock || outside {
		m.random(name+".bias", m.Embd, 0, 0.02)
	}
}

// reader lists a matrix [rows, n_embd]. Its products with in have the given deviation and the mean offset(row); offset
// may be nil.
func (m *model) reader(name string, rows int, in amplitudes, deviation float64, offset func(row int) float32) {
	k := m.stream(name)
	noise, coefs := k.sub(0), k.sub(1)
	scale, perOffset := float32(deviation/in.subspace), float32(1/in.mean)
	jitter := float32(rowNoise * deviation / in.subspace / math.Sqrt(float64(m.space.g)))
	m.matrix(name, rows, m.Embd, func(i int, row, c []float32) {
		own := coefs.sub(i)
		for j := range c {
			c[j] = float32(scale * own.normal(j))
		}
		shift := float32(0)
		if offset != nil {
			shift = float32(offset(i) * perOffset)
		}
		m.space.vector(row, c, shift)
		addNoise(row, noise, i*m.Embd, jitter)
	})
}

func addNoise(row []float32, k key, at int, deviation float32) {
	for e := range row {
		row[e] += float32(deviation * k.normal(at+e))
	}
}

// points lists a table [rows, n_embd] of random points of the given energy in the subspace, and mean along m̂, times a
// factor: embeddings.
func (m *model) points(name string, rows int, e, mean, factor float64) {
	k := m.stream(name)
	noise, coefs := k.sub(0), k.sub(1)
	n := float64(m.Embd)
	jitter := float32(rowNoise * factor * math.Sqrt(e))
	m.matrix(name, rows, m.Embd, func(i int, row, c []float32) {
		own := coefs.sub(i)
		var square float64
		for j := range c {
			c[j] = own.normal(j)
			square += float64(float64(c[j]) * float64(c[j]))
		}
		scale := float32(factor * math.Sqrt(n*e/square))
		for j := range c {
			c[j] *= scale
		}
		m.space.vector(row, c, float32(factor*math.Sqrt(n*mean)))
		addNoise(row, noise, i*m.Embd, jitter)
	})
}

// writer lists a matrix [n_embd, cols] that maps into the subspace. Column i is weight(i) times the sum of random
// coefficients times directions, the same for columns with equal origin(i). Transposed, it is a matrix [cols, n_embd]
// of the same elements.
func (m *model) writer(name string, cols int, transposed bool, origin func(col int) int, weight func(col int) float32) {
	k := m.stream(name)
	noise, coefs := k.sub(0), k.sub(1)
	a := float32(1 / math.Sqrt(float64(m.space.g)))
	element := func(e, col int) float32 {
		s, _ := m.space.signs(e)
		v := coefs.normal(e%m.space.k*cols + origin(col))
		return float32(float32(a*weight(col)) * (float32(s*v) + float32(rowNoise*noise.normal(e*cols+col))))
	}
	if transposed {
		m.matrix(name, cols, m.Embd, func(i int, row, _ []float32) {
			for e := range row {
				row[e] = element(e, i)
			}
		})
		return
	}
	m.matrix(name, m.Embd, cols, func(e int, row, _ []float32) {
		for i := range row {
			row[i] = element(e, i)
		}
	})
}

// tensors lists the whole model in the order in which it is written.
func (m *model) tensors() []gguf.Source {
	m.points("token_embd.weight", m.Vocab, embedEnergy, meanEnergy, 1/m.scales.embedding)
	if m.fam.NormsEmbeddings() {
		m.norm("token_embd_norm")
	}
	if learned(m.fam) {
		m.points("position_embd.weight", m.Context+m.fam.LearnedOffset, positionEnergy, 0, 1)
	}
	if _, ok := m.fam.Outside("token_types.weight"); ok {
		k := m.stream("token_types.weight")
		m.out = append(m.out, source("token_types.weight", quant.F32, tokenTypes, m.Embd, m.space.k, func(i int, row, _ []float32) {
			addNoise(row, k, i*m.Embd, typeDeviation)
		}))
	}
	m.head()
	if _, ok := m.fam.Outside("output.bias"); ok {
		m.random("output.bias", m.Vocab, 0, 0.1)
	}
	for _, f := range []struct {
		name    string
		factors []float32
	}{{"rope_freqs.weight", m.RopeFactors}, {"rope_factors_long.weight", m.RopeLong}, {"rope_factors_short.weight", m.RopeShort}} {
		if f.factors != nil {
			m.vector(f.name, len(f.factors), func(i int) float32 { return f.factors[i] })
		}
	}
	if m.Labels > 0 {
		m.classifier()
	}
	m.streams()
	if _, ok := m.fam.Outside("output_res_score.weight"); ok {
		m.random("output_res_score.weight", m.Embd, 0, 0.05)
	}
	m.gatedOuter()
	m.rest("", -1, m.fam.Outer)
	for i := range m.Layers {
		m.block(i)
	}
	for _, list := range m.factors {
		list()
	}
	return m.out
}

// classifier lists a head of two products for one state.
func (m *model) classifier() {
	for _, t := range []struct {
		name string
		rows int
	}{{"cls", m.Embd}, {"cls.output", m.Labels}} {
		name, rows := t.name, t.rows
		k, deviation := m.stream(name+".weight"), float32(1/math.Sqrt(float64(m.Embd)))
		m.out = append(m.out, source(name+".weight", quant.F32, rows, m.Embd, m.space.k, func(i int, row, _ []float32) {
			addNoise(row, k, i*m.Embd, deviation)
		}))
		m.random(name+".bias", rows, 0, 0.1)
	}
}

// tokenTypes is the number of BERT's token types. typeDeviation is the deviation of the elements that each type adds to
// its tokens' embeddings.
const (
	tokenTypes    = 2
	typeDeviation = 0.02
)

// logitDeviation is the deviation of the logits over the vocabulary: text sampled at temperature 1 varies.
const logitDeviation = 2

// head lists the final norm and output.weight. A tied head would answer each token with itself: the final norm turns
// every other direction round, and sets the logits' size.
func (m *model) head() {
	e, last := m.energy(float64(m.Layers)), m.fam.LastNorm()
	if m.fam.Headless {
		if _, ok := m.fam.Outside(last + ".weight"); ok {
			m.norm(last)
		}
		return
	}
	if m.Tied && m.fam.BareNorms { // nothing turns directions round
		return
	}
	if !m.Tied {
		if _, ok := m.fam.Outside(last + ".weight"); ok {
			m.norm(last)
		}
		m.reader("output.weight", m.Vocab, m.space.normed(e), logitDeviation/m.scales.logits, nil)
		return
	}
	rows := math.Sqrt(float64(m.space.k)/(float64(m.Embd)*embedEnergy)) * m.scales.embedding
	size := float32(logitDeviation * rows / m.space.normed(e).subspace / m.scales.logits)
	k := m.stream(last + ".weight")
	m.vector(last+".weight", m.Embd, func(i int) float32 {
		turn := 1 - float32(i%m.space.k%2*2)
		return float32(size*turn) * (1 + float32(0.02*k.normal(i)))
	})
	if m.fam.NormBiases() {
		m.random(last+".bias", m.Embd, 0, 0.02*size)
	}
}

// has reports whether synthetic blocks hold a tensor. They lack optional tensors, except a second norm that is asked
// for.
func (m *model) has(name string) bool {
	t, ok := m.fam.InBlock(name)
	return ok && (!t.Optional || strings.HasPrefix(name, "indexer.") || m.AttnNorm2 && strings.HasPrefix(name, "attn_norm_2."))
}

// maybe lists a vector of the block, if the family has it, with the mean and deviation given.
func (m *model) maybe(layer int, name string, mean, deviation float32) {
	if m.has(name) {
		m.random(fmt.Sprintf("blk.%d.%s", layer, name), m.shape(layer, name)[0], mean, deviation)
	}
}

// after lists the norm after a part of the block. The part adds the given share of the layer's output.
func (m *model) after(layer int, name string, share float64) {
	root := float32(math.Sqrt(growth*share/float64(m.Layers)) / m.scales.residual)
	m.maybe(layer, m.fam.NormWeight(strings.TrimSuffix(name, ".weight")), root, 0.02*root)
}

// input returns the amplitudes of the input of a part of a block at the given depth, in layers.
func (m *model) input(depth float64) amplitudes {
	e := m.energy(depth)
	switch {
	case m.fam.NormSum:
		return m.space.normed(m.summed(depth))
	case m.fam.PreNorm() || m.fam.GatedStreams:
		return m.space.normed(e)
	}
	return m.space.plain(e)
}

// summed returns the energy in the subspace in families that norm each part's sum with the residual. A part then adds a
// larger share of the residual than in families in which the residual grows.
func (m *model) summed(depth float64) float64 {
	e := m.energy(0)
	for l := range m.Layers {
		for _, share := range []float64{attentionShare, 1 - attentionShare} {
			at := float64(l)
			if share != attentionShare {
				at += attentionShare
			}
			if at < depth {
				e += (e + meanEnergy) * growth * share / float64(m.Layers)
			}
		}
	}
	return e
}
