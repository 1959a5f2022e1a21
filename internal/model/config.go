package model

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/arch"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

// Config is a model's hyperparameters, read from the file's metadata.
type Config struct {
	Arch    string // general.architecture: Family.Name
	Name    string // general.name
	Context int    // positions the model was trained for
	Embd    int    // width of the residual stream
	Layers  int
	Further int // layers of the file behind these, which predict further tokens than the next and are not computed, but for guesses
	// FurtherCached says that the KV cache has a part of the first of these.
	FurtherCached bool
	Family        arch.Family
	Blocks        []Block // [Layers]; where they differ, the four below are the largest
	Experts       Experts // of the layers that have any
	// ExpertUse counts which experts the tokens of some texts used, numbered as the file has them; nil: the file does not say.
	ExpertUse *neuron.Experts
	FF        int
	Heads     int
	KVHeads   int
	HeadDim   int     // of keys
	Vocab     int     // rows of the token embedding
	Eps       float32 // of the norms
	Rope      ropeConfig
	Local     ropeConfig // of layers with windows
	Alibi     float64    // the largest exponent of ALiBi's slopes; 0: scores do not fall with distance
	Later     bool       // tokens see later positions, too
	Clamp     float32    // queries, keys and values are brought into [-Clamp, Clamp]; 0: they stay as they are
	// QueryLatent is the width of the latent vector of queries, in latent attention; 0: queries are products of the input.
	QueryLatent int
	Scale       Scales
	Cap         Caps
	// Temperature says how queries grow with their position; Scale is 0 where they do not.
	Temperature compute.Temperature
	Act         compute.Activation
	Input       int        // width of a layer's own embedding of a token; 0: there are none
	States      StateSpace // of recurrent layers
	Active      int        // the stream of the residual that blocks compute, of families with several
	// Predictors says that the file carries predictors: it is an original PowerInfer file or a prepared one.
	Predictors bool
	Transposed bool           // down projections are stored one row per neuron
	Prepared   *prepared.Info // of a prepared file
	Sparse     SparseMode     // Auto until the model is loaded
	// Threshold is the file's powerinfer.sparse_threshold; a predicted neuron's logit is at least this.
	Threshold  float32
	Curve      *prepared.Curve // of settings and what they cost; nil: the file has none
	Chosen     string          // a line about how the model is computed to keep a bound; empty where nothing was chosen
	AlwaysOn   float64         // share of a layer's neurons, the hottest, that mode Predict computes for every token, where it is more than the prepared file's
	Predicting []bool          // [layers] those that mode Predict runs by their predictors, the others exact; nil: all that have one
	// Magnitudes are the layers' thresholds of mode Threshold, 0 where a layer has none; nil in other modes. [layers]
	Magnitudes []float32
}

// Block is one layer's hyperparameters.
type Block struct {
	FF         int // neurons of the feed-forward layer; in layers with experts those of the shared experts, 0 if no expert is shared
	Experts    bool
	Heads      int
	KVHeads    int
	Key, Value int // elements of a head's key and of its value
	Window     int // positions that a token attends to; 0: all
	Rotation   Rotation
	KV         int      // the layer whose keys and values it reads: its own, or an earlier one that has some
	Latent     int      // width of the latent vector of keys and values, in latent attention; else 0
	Rotated    int      // elements of a key that are rotated and the same for all heads, there
	State      int      // numbers of a sequence's state; not 0 in recurrent layers, which may have attention besides
	TopK       *float32 // gates that are not above their mean by so many deviations are zero; nil: all stay
}

// Rotation says how a layer's heads are rotated to their positions.
type Rotation int

// The rotations of layers.
const (
	Rotated   Rotation = iota // as Config.Rope says
	Locally                   // as Config.Local says
	Unrotated                 // not at all
)

// Scales are factors of activations; 1 changes nothing.
type Scales struct {
	Embedding float32
	Attention float32 // of the products q·k, before the softmax; 0: 1/√key
	Residual  float32 // of what each part of a block adds to the residual
	Logits    float32
}

// readTemperature returns how queries grow with their position; the zero value where they do not.
func (c *Config) readTemperature(m *metadata) compute.Temperature {
	if !c.Family.Tempered {
		return c.Family.Temperature
	}
	scale := m.within(c.Arch+".attention.temperature_scale", 0, 0, maxScale)
	return compute.Temperature{Scale: float32(scale), Length: c.Rope.Context}
}

// Caps are the limits that activations are brought below smoothly; 0: none.
type Caps struct {
	Scores float32
	Logits float32
}

// uniform reports whether all layers have as many neurons.
func (c *Config) uniform() bool {
	return !slices.ContainsFunc(c.Blocks, func(b Block) bool { return b.FF != c.FF })
}

// Limits on hyperparameters from outside: beyond them a file is taken for damaged.
const (
	maxLayers = 1 << 12
	maxWidth  = 1 << 20
)

// metadata reads keys of one file and keeps the first error, so that a list of reads needs one check.
type metadata struct {
	f       *gguf.File
	further int // layers that arrays have numbers of behind those of the model's
	err     error
}

func (m *metadata) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf("%s: %s", m.f.Path, fmt.Sprintf(format, args...))
	}
}

// count reads an integer in [1, max]; absent is def, and an error where def is 0.
func (m *metadata) count(key string, def, max int) int {
	v, ok, err := m.f.Uint(key)
	switch {
	case err != nil:
		if m.err == nil {
			m.err = err
		}
	case !ok && def == 0:
		m.fail("key %q is missing", key)
	case !ok:
		return def
	case v < 1 || v > uint64(max):
		m.fail("key %q: %d is outside 1…%d", key, v, max)
	default:
		return int(v)
	}
	return 1
}

// counts reads an integer in [1, maxWidth] for each of n layers: one for all of them, or an array. Absent is def, and an error
// where def is nil.
func (m *metadata) counts(key string, n int, def func(layer int) int) []int {
	return m.countsFrom(1, key, n, def)
}

// countsFrom is counts of integers from least on.
func (m *metadata) countsFrom(least int32, key string, n int, def func(layer int) int) []int {
	out := make([]int, n)
	if v, ok := m.f.Lookup(key); ok && reflect.ValueOf(v).Kind() == reflect.Slice {
		list, _, err := m.f.Int32s(key)
		switch {
		case err != nil && m.err == nil:
			m.err = err
		case err == nil && len(list) != n && len(list) != n+m.further:
			m.fail("key %q: %d numbers for %d layers", key, len(list), n)
		}
		for l := range out {
			out[l] = 1
			switch {
			case m.err != nil:
			case list[l] < least || list[l] > maxWidth:
				m.fail("key %q: %d of layer %d is outside %d…%d", key, list[l], l, least, maxWidth)
			default:
				out[l] = int(list[l])
			}
		}
		return out
	}
	if v, ok, err := m.f.Uint(key); least == 0 && ok && err == nil && v == 0 {
		return out
	}
	if _, ok := m.f.Lookup(key); ok || def == nil {
		return slices.Repeat([]int{m.count(key, 0, maxWidth)}, n)
	}
	for l := range out {
		out[l] = def(l)
	}
	return out
}

func (m *metadata) float(key string, def float64) float64 {
	v, ok, err := m.f.Float(key)
	if err != nil && m.err == nil {
		m.err = err
	}
	if !ok || err != nil {
		return def
	}
	return v
}

// within returns a number from low to high, which NaN is not.
func (m *metadata) within(key string, def, low, high float64) float64 {
	v := m.float(key, def)
	if !(v >= low && v <= high) {
		m.fail("key %q: %g is not a number from %g to %g", key, v, low, high)
	}
	return v
}

func (m *metadata) flag(key string, def bool) bool {
	v, ok, err := m.f.Bool(key)
	if err != nil && m.err == nil {
		m.err = err
	}
	if !ok || err != nil {
		return def
	}
	return v
}

func (m *metadata) text(key, def string) string {
	v, ok, err := m.f.String(key)
	if err != nil && m.err == nil {
		m.err = err
	}
	if !ok || err != nil {
		return def
	}
	return v
}

// ReadConfig reads and checks the hyperparameters of f. activation, when not empty, overrides the file's.
func ReadConfig(f *gguf.File, activation string) (Config, error) {
	m := &metadata{f: f}
	c := Config{Arch: m.text("general.architecture", ""), Name: m.text("general.name", "")}
	if m.err != nil {
		return c, m.err
	}
	var ok bool
	if c.Family, ok = arch.Named(c.Arch); !ok {
		return c, fmt.Errorf("%s: architecture %q is not supported; supported are %s", f.Path, c.Arch, arch.Names(nil))
	}
	key := func(s string) string { return c.Arch + "." + s }
	if k := c.Family.ParallelKey; k != "" {
		c.Family.Parallel = m.flag(key(k), c.Family.Parallel)
	}
	c.Context = m.count(key("context_length"), 0, 1<<30)
	c.Embd = m.count(key("embedding_length"), 0, maxWidth)
	c.Layers = m.count(key("block_count"), 0, maxLayers)
	c.readFurther(m)
	c.readBlocks(m)
	c.readStates(m)
	c.readExperts(m)
	c.readInputs(m)
	c.Eps = float32(m.within(key(c.Family.EpsilonKey()), 1e-5, 0, 1))
	if v := m.text(key("rope.scaling.type"), "none"); v != "none" && v != "linear" && v != "yarn" && v != "longrope" && v != "dynamic" {
		m.fail("key %q: rope scaling %q is not supported; supported are none, linear, yarn, longrope, dynamic", key("rope.scaling.type"), v)
	}
	c.Rope = readRope(m, &c)
	c.Local = c.readLocalRope(m)
	c.readPositions(m)
	c.readScales(m)
	c.Temperature = c.readTemperature(m)
	c.Threshold = float32(m.within("powerinfer.sparse_threshold", 0, math.Inf(-1), math.Inf(1)))
	original := f.Magic == "PWRI"
	if original && c.Family.Original == "" {
		m.fail("original PowerInfer files of architecture %q do not exist; supported are %s", c.Arch, arch.Originals())
	}
	if m.err != nil {
		return c, m.err
	}
	embd := f.Tensor("token_embd.weight")
	if embd == nil {
		return c, fmt.Errorf("%s: tensor \"token_embd.weight\" is missing; this file holds no model", f.Path)
	}
	c.Vocab = embd.Rows()
	var err error
	if c.Act, err = readActivation(m, &c.Family, original, activation); err != nil {
		return c, err
	}
	if err := c.readExpertUse(f); err != nil {
		return c, err
	}
	if c.Curve, err = prepared.ReadCurve(f, c.Layers); err != nil {
		return c, err
	}
	info, ok, err := prepared.Read(f)
	if ok {
		c.Prepared = &info
	}
	c.Predictors, c.Transposed = original || ok, original || ok
	if err == nil && c.Transposed {
		err = c.checkByNeuron(m)
	}
	return c, err
}

// readFurther leaves out the file's last layers if they predict further tokens than the next.
func (c *Config) readFurther(m *metadata) {
	key := c.Arch + ".nextn_predict_layers"
	n, _, err := m.f.Uint(key)
	switch {
	case m.err != nil:
	case err != nil:
		m.err = err
	case n >= uint64(c.Layers):
		m.fail("key %q: %d of %d layers predict further tokens, which leaves none that predict the next", key, n, c.Layers)
	default:
		c.Layers -= int(n)
		m.further = int(n)
	}
	c.Further = m.further
}

// checkByNeuron refuses a file whose down projections are stored by neuron where layers cannot be computed so.
func (c *Config) checkByNeuron(m *metadata) error {
	if c.Experts.Count > 0 {
		return fmt.Errorf("%s: predictors of models with experts are not supported", m.f.Path)
	}
	if !c.uniform() {
		return fmt.Errorf("%s: key %q: predictors of layers that differ in their number of neurons are not supported", m.f.Path, c.Arch+".feed_forward_length")
	}
	return nil
}

// readBlocks reads what files may say for each layer.
func (c *Config) readBlocks(m *metadata) {
	key := func(s string) string { return c.Arch + "." + s }
	if m.err != nil {
		return
	}
	least, leastKV := int32(1), int32(1)
	leastHeads := int32(1)
	if c.Family.OnlyRecurrent() {
		least, leastHeads = 0, 0
	}
	if c.Family.OnePart {
		least = 0
	}
	if c.Family.StateSpace {
		leastKV = 0
	}
	ff := m.countsFrom(least, key("feed_forward_length"), c.Layers, nil)
	heads := m.countsFrom(leastHeads, key("attention.head_count"), c.Layers, nil)
	kvHeads := m.countsFrom(leastKV, key("attention.head_count_kv"), c.Layers, func(l int) int { return heads[l] })
	keys := m.counts(key("attention.key_length"), c.Layers, func(l int) int { return max(1, c.Embd/max(1, heads[l])) })
	values := m.counts(key("attention.value_length"), c.Layers, func(l int) int {
		if c.Family.Latent {
			return max(1, c.Embd/heads[l])
		}
		return keys[l]
	})
	if c.Family.KeysByHead() { // the keys above are of the cache's rows
		cached, stored := keys, values
		keys = m.counts(key("attention.key_length_mla"), c.Layers, func(l int) int { return cached[l] })
		values = m.counts(key("attention.value_length_mla"), c.Layers, func(l int) int { return stored[l] })
	}
	if c.Family.Delta {
		for l, is := range c.readRecurrent(m) {
			if is {
				kvHeads[l] = 0
			}
		}
	}
	if c.Family.OnlyRecurrent() {
		clear(kvHeads)
		clear(ff)
	}
	window, windowed := c.readWindows(m)
	unrotated := c.Family.PerhapsRotated && !m.flag(key("rope.scaling.finetuned"), true)
	c.Blocks = make([]Block, c.Layers)
	for l := range c.Blocks {
		b := Block{FF: ff[l], Heads: heads[l], KVHeads: kvHeads[l], Key: keys[l], Value: values[l], KV: l}
		if windowed[l] {
			b.Window, b.Rotation = window, Locally
			if c.Family.WindowHeads {
				b.Key = m.count(key("attention.key_length_swa"), b.Key, maxWidth)
				b.Value = m.count(key("attention.value_length_swa"), b.Value, maxWidth)
			}
		} else if c.Family.UnrotatedFull && slices.Contains(windowed, true) {
			b.Rotation = Unrotated
		}
		if every := c.Family.UnrotatedEvery; every > 0 && (l+1)%every == 0 || unrotated {
			b.Rotation = Unrotated
		}
		if b.KVHeads == 0 { // there is no attention
			b.Heads, b.Key, b.Value = 0, 0, 0
			c.Blocks[l] = b
			c.FF = max(c.FF, b.FF)
			continue
		}
		c.Blocks[l] = b
		c.FF, c.Heads, c.KVHeads, c.HeadDim = max(c.FF, b.FF), max(c.Heads, b.Heads), max(c.KVHeads, b.KVHeads), max(c.HeadDim, b.Key)
		if b.Heads%b.KVHeads != 0 {
			m.fail("%d attention heads do not share %d KV heads evenly", b.Heads, b.KVHeads)
		}
		for _, n := range []int{b.Key, b.Value} {
			if n%8 != 0 || n > 512 {
				m.fail("heads of %d elements are not supported; a multiple of 8 up to 512 is", n)
			}
		}
		if c.Family.GatedAttention && b.Key != b.Value {
			m.fail("heads of %d elements of keys and %d of values are not supported: each has a gate as wide as its query", b.Key, b.Value)
		}
		if b.Heads*max(b.Key, b.Value) > maxWidth {
			m.fail("%d heads of %d elements are wider than %d", b.Heads, max(b.Key, b.Value), maxWidth)
		}
	}
}

// readInputs reads what layers have beside their own weights: embeddings of tokens, keys and values of other layers, a part of their gates.
func (c *Config) readInputs(m *metadata) {
	key := func(s string) string { return c.Arch + "." + s }
	f := &c.Family
	if f.LayerInputs {
		if n, ok, err := m.f.Uint(key("embedding_length_per_layer_input")); err != nil || !ok || n > 0 {
			c.Input = m.count(key("embedding_length_per_layer_input"), 0, maxWidth/max(1, c.Layers))
		}
	}
	if f.AltUp {
		n, _, err := m.f.Uint(key("altup.active_idx"))
		if c.Active = int(min(n, compute.AltUpStreams)); err != nil || c.Active == compute.AltUpStreams {
			m.fail("key %q: it names none of %d streams", key("altup.active_idx"), compute.AltUpStreams)
		}
		if n := m.count(key("altup.num_inputs"), compute.AltUpStreams, maxWidth); n != compute.AltUpStreams {
			m.fail("key %q: %d streams of the residual are not supported; %d are", key("altup.num_inputs"), n, compute.AltUpStreams)
		}
	}
	if f.SharedKV && m.err == nil {
		c.shareKV(m, key("attention.shared_kv_layers"))
	}
	if f.TopK && m.err == nil {
		c.readTopK(m, key("activation_sparsity_scale"))
	}
}

// shareKV has the last layers read keys and values of the last layer before them that has some and a window if they have one.
func (c *Config) shareKV(m *metadata, key string) {
	shared, ok, err := m.f.Uint(key)
	if !ok && c.Family.UsualKV > 0 {
		shared = uint64(max(0, c.Layers-c.Family.UsualKV))
	}
	if err != nil || shared > uint64(c.Layers) {
		m.fail("key %q: it is not a number of layers up to %d", key, c.Layers)
		return
	}
	own := c.Layers - int(shared)
	for l := own; l < c.Layers; l++ {
		b := &c.Blocks[l]
		if b.KV = own - 1; b.Rotation == Locally {
			b.KV = own - 2 // as families with shared layers have it: the last two that have their own are one of each kind
		}
		if b.KV < 0 || c.Blocks[b.KV].Rotation != b.Rotation || c.Blocks[b.KV].kv() != b.kv() {
			m.fail("key %q: layer %d finds no layer of its kind whose keys and values it could read", key, l)
			return
		}
	}
}

// readTopK reads how many deviations above the mean gates must be; minus infinity: all stay.
func (c *Config) readTopK(m *metadata, key string) {
	scales, _, err := m.f.Float32s(key)
	if err != nil || scales != nil && len(scales) != c.Layers {
		m.fail("key %q: it is not a list of %d numbers", key, c.Layers)
		return
	}
	for l, v := range scales {
		switch {
		case math.IsNaN(float64(v)) || v > maxDeviations:
			m.fail("key %q: %g of layer %d is not a number up to %d", key, v, l, maxDeviations)
			return
		case v > -maxDeviations:
			c.Blocks[l].TopK = &scales[l]
		}
	}
}

// maxDeviations bounds what gates may have to be above their mean by, in standard deviations: beyond it none or all are.
const maxDeviations = 10

// readWindows returns how many positions a token of a layer with a window attends to, 0 being all, and which layers have one. Where
// layers differ, files give an array, or the period at which a layer without a window follows.
func (c *Config) readWindows(m *metadata) (window int, windowed []bool) {
	windowed = make([]bool, c.Layers)
	v, ok, err := m.f.Uint(c.Arch + ".attention.sliding_window")
	if !ok {
		v = uint64(c.Family.UsualWindow)
	}
	if !c.Family.Window || err != nil || v == 0 {
		return 0, windowed
	}
	if v < uint64(c.Context) {
		window = int(v)
	}
	key := c.Arch + ".attention.sliding_window_pattern"
	every := uint64(c.Family.FullEvery)
	switch pattern, _ := m.f.Lookup(key); p := pattern.(type) {
	case nil:
	case []bool:
		if len(p) != c.Layers {
			m.fail("key %q: %d values for %d layers", key, len(p), c.Layers)
			return 0, windowed
		}
		return window, p
	default:
		if every, _, err = m.f.Uint(key); err != nil && m.err == nil {
			m.err = err
		}
	}
	for l := range windowed {
		windowed[l] = every == 0 || !c.Family.FullFirst && uint64(l)%every < every-1 || c.Family.FullFirst && uint64(l)%every > 0
	}
	return window, windowed
}

// maxExponent bounds ALiBi's exponents, whose slopes are powers of 1/2.
const maxExponent = 64

// readPositions reads how scores depend on positions besides the rotation, and what keys and values are computed from.
func (c *Config) readPositions(m *metadata) {
	f := &c.Family
	if f.RotatedLayers > 0 && c.Layers != f.RotatedLayers {
		f.Rotation = arch.NotRotated
	}
	if c.Alibi = m.within(c.Arch+".attention.max_alibi_bias", f.MaxAlibi, 0, maxExponent); f.AlibiLayers > 0 && c.Layers != f.AlibiLayers {
		c.Alibi = 0
	}
	c.Later = !m.flag(c.Arch+".attention.causal", !f.Later)
	if f.Clamped {
		c.Clamp = float32(m.within(c.Arch+".attention.clamp_kqv", 0, 0, maxScale))
	}
	if f.Latent && m.err == nil {
		c.readLatent(m)
	}
}

// readLatent reads what latent attention computes with: in all layers the same.
func (c *Config) readLatent(m *metadata) {
	key := c.Arch + ".attention.kv_lora_rank"
	width := m.count(key, 0, maxWidth)
	if _, ok := m.f.Lookup(c.Arch + ".attention.q_lora_rank"); ok {
		c.QueryLatent = m.count(c.Arch+".attention.q_lora_rank", 0, maxWidth)
	}
	if c.Rope.First = c.HeadDim - c.Rope.Dims; c.Rope.First < 1 {
		m.fail("key %q: %d rotated elements leave none of a head's %d", c.Arch+".rope.dimension_count", c.Rope.Dims, c.HeadDim)
	}
	for l := range c.Blocks {
		b, first := &c.Blocks[l], &c.Blocks[0]
		b.Latent, b.Rotated = width, c.Rope.Dims
		switch {
		case b.Heads != first.Heads || b.Key != first.Key || b.Value != first.Value:
			m.fail("layer %d has other heads than layer 0, which attention with a latent vector does not allow", l)
		case width%8 != 0 || c.Rope.Dims%8 != 0 || b.Heads*(width+c.Rope.Dims) > maxWidth:
			m.fail("key %q: latent vectors of %d elements for %d heads, with %d rotated ones, are not supported: take multiples of 8 that make %d at most for all heads",
				key, width, b.Heads, c.Rope.Dims, maxWidth)
		}
	}
}

// slopes returns ALiBi's slopes for so many heads: powers of 2, those of the next power of two heads between them.
//
// Source: Press et al. 2022, Train Short, Test Long.
func slopes(heads int, most float64) []float32 {
	out := make([]float32, heads)
	whole := 1 << (bits.Len(uint(heads)) - 1)
	for h := range out {
		step, n := most/float64(whole), float64(h+1)
		if h >= whole {
			step, n = step/2, float64(2*(h-whole)+1)
		}
		out[h] = float32(math.Exp2(-step * n))
	}
	return out
}

// maxScale bounds factors from outside: beyond it activations stop being numbers.
const maxScale = 1e6

// readScales reads the factors and caps of activations.
func (c *Config) readScales(m *metadata) {
	read := func(key string, def float64) float32 { return float32(m.within(c.Arch+"."+key, def, 0, maxScale)) }
	f, usual := &c.Family, arch.Factors{Embedding: 1, Residual: 1, Logits: 1}
	if f.Factors != nil {
		usual = f.Factors(c.Layers, c.Embd)
	}
	factor := func(key string, def float64) float32 { return cmp.Or(read(key, def), 1) } // 0, as llama.cpp has it, is no factor
	c.Scale = Scales{Embedding: 1, Attention: read("attention.scale", f.ScoreScale), Residual: 1, Logits: 1}
	if f.Multipliers {
		c.Scale.Embedding, c.Scale.Residual, c.Scale.Logits = factor("embedding_scale", usual.Embedding), factor("residual_scale", usual.Residual), 1/factor("logit_scale", 1/usual.Logits)
	}
	if f.ScaledLogits {
		c.Scale.Logits = factor("logit_scale", 1)
	}
	if f.ScaledInput {
		c.Scale.Embedding = float32(math.Sqrt(float64(c.Embd)))
	}
	if c.Scale.Attention == 0 && f.ScaledByWidth == c.Layers && c.Heads > 0 {
		c.Scale.Attention = float32(1 / math.Sqrt(float64(c.Embd/c.Heads)))
	}
	c.Cap = Caps{Scores: read("attn_logit_softcapping", f.ScoreCap), Logits: read("final_logit_softcapping", f.LogitCap)}
}

// readActivation returns the activation: the override, the file's key, else what the architecture and magic imply.
func readActivation(m *metadata, fam *arch.Family, original bool, override string) (compute.Activation, error) {
	act, err := namedActivation(m, fam, original, override)
	if act.Kind != compute.FATReLU { // of SiLU and GELU it would take small activations as zero
		act.Threshold = 0
	}
	return act, err
}

// namedActivation is readActivation, with FATReLU's threshold whatever the activation is.
func namedActivation(m *metadata, fam *arch.Family, original bool, override string) (compute.Activation, error) {
	name := override
	if name == "" {
		name = m.text("powerinfer.activation", "")
	}
	act := compute.Activation{Kind: fam.Activation, Slope: fam.Slope, Limit: fam.Limit, Threshold: float32(m.within("powerinfer.activation_threshold", 0.01, -math.MaxFloat32, math.MaxFloat32))}
	if m.err != nil {
		return act, m.err
	}
	if name == "" {
		name = m.text(fam.Name+".hidden_activation", "") // as ModernBERT's files have it
	}
	if name == "" && original {
		name = fam.Original
	}
	if name == "" {
		return act, nil
	}
	kind, threshold, hasThreshold := strings.Cut(strings.ToLower(name), ":")
	act.Kind = compute.SiLU
	for act.Kind <= compute.ClampedSwiGLU && act.Kind.String() != kind {
		act.Kind++
	}
	if act.Kind > compute.ClampedSwiGLU || act.Kind == compute.ClampedSwiGLU && fam.Activation != act.Kind {
		return act, fmt.Errorf("%s: activation %q is not supported; supported are silu, gelu, relu, fatrelu[:threshold], drelu, relu2", m.f.Path, name)
	}
	if hasThreshold {
		v, err := strconv.ParseFloat(threshold, 32)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || act.Kind != compute.FATReLU {
			return act, fmt.Errorf("%s: activation %q: only fatrelu has a threshold, and it is a number", m.f.Path, name)
		}
		act.Threshold = float32(v)
	}
	return act, nil
}
