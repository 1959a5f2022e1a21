package model

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
)

// Config is a model's hyperparameters, read from the file's metadata.
type Config struct {
	Arch    string // general.architecture
	Name    string // general.name
	Context int    // positions the model was trained for
	Embd    int    // width of the residual stream
	Layers  int
	FF      int // neurons of a feed-forward layer
	Heads   int
	KVHeads int
	HeadDim int
	Vocab   int     // rows of the token embedding
	Eps     float32 // of the norms
	Rope    ropeConfig
	Act     compute.Activation
	// Predictors says that the file carries predictors: it is an original PowerInfer file or a prepared one.
	Predictors bool
	Transposed bool           // down projections are stored one row per neuron
	Prepared   *prepared.Info // of a prepared file
	Sparse     SparseMode     // Auto until the model is loaded
	// Threshold is the file's powerinfer.sparse_threshold; a predicted neuron's logit is at least this.
	Threshold float32
}

// family is what the architectures differ in.
type family struct {
	style   compute.RopeStyle
	act     compute.Nonlinearity // where the file has no powerinfer.activation
	sparse  bool                 // original PowerInfer files of this architecture exist
	bindAll func(*binder, *Model) error
	block   func(*Model, compute.Verbs, *layer, int)
}

// families lists the supported architectures; sorted names are in error messages.
func families() map[string]family {
	return map[string]family{
		"llama":  {style: compute.Interleaved, act: compute.SiLU, sparse: true, bindAll: bindLlama, block: (*Model).llamaBlock},
		"bamboo": {style: compute.Interleaved, act: compute.DReLU, sparse: true, bindAll: bindLlama, block: (*Model).llamaBlock},
		"qwen2":  {style: compute.Halves, act: compute.SiLU, bindAll: bindLlama, block: (*Model).llamaBlock},
		"qwen3":  {style: compute.Halves, act: compute.SiLU, bindAll: bindLlama, block: (*Model).llamaBlock},
		"falcon": {style: compute.Halves, act: compute.GELU, sparse: true, bindAll: bindFalcon, block: (*Model).falconBlock},
		"opt":    {act: compute.ReLU, sparse: true, bindAll: bindOPT, block: (*Model).optBlock},
	}
}

// Architectures names what can be run, for error messages.
const Architectures = "bamboo, falcon, llama, opt, qwen2, qwen3"

// layerNorm reports whether the family has LayerNorm instead of RMSNorm.
func (c *Config) layerNorm() bool { return c.Arch == "falcon" || c.Arch == "opt" }

// gated reports whether the family's feed-forward layers have a gate.
func (c *Config) gated() bool { return c.Arch != "falcon" && c.Arch != "opt" }

// Limits on hyperparameters from outside: beyond them a file is taken for damaged.
const (
	maxLayers = 1 << 12
	maxWidth  = 1 << 20
)

// metadata reads keys of one file and keeps the first error, so that a list of reads needs one check.
type metadata struct {
	f   *gguf.File
	err error
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

// within is a number from low to high, which NaN is not.
func (m *metadata) within(key string, def, low, high float64) float64 {
	v := m.float(key, def)
	if !(v >= low && v <= high) {
		m.fail("key %q: %g is not a number from %g to %g", key, v, low, high)
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
	fam, ok := families()[c.Arch]
	if !ok {
		return c, fmt.Errorf("%s: architecture %q is not supported; supported are %s", f.Path, c.Arch, Architectures)
	}
	key := func(s string) string { return c.Arch + "." + s }
	c.Context = m.count(key("context_length"), 0, 1<<30)
	c.Embd = m.count(key("embedding_length"), 0, maxWidth)
	c.Layers = m.count(key("block_count"), 0, maxLayers)
	c.FF = m.count(key("feed_forward_length"), 0, maxWidth)
	c.Heads = m.count(key("attention.head_count"), 0, maxWidth)
	c.KVHeads = m.count(key("attention.head_count_kv"), c.Heads, maxWidth)
	if m.err == nil && c.Heads%c.KVHeads != 0 {
		m.fail("%d attention heads do not share %d KV heads evenly", c.Heads, c.KVHeads)
	}
	c.HeadDim = m.count(key("attention.key_length"), max(1, c.Embd/c.Heads), maxWidth)
	if v := m.count(key("attention.value_length"), c.HeadDim, maxWidth); v != c.HeadDim {
		m.fail("key %q: value heads of %d beside key heads of %d are not supported", key("attention.value_length"), v, c.HeadDim)
	}
	epsKey := "attention.layer_norm_rms_epsilon"
	if c.layerNorm() {
		epsKey = "attention.layer_norm_epsilon"
	}
	c.Eps = float32(m.within(key(epsKey), 1e-5, 0, 1))
	if v := m.text(key("rope.scaling.type"), "none"); v != "none" && v != "linear" && v != "yarn" {
		m.fail("key %q: rope scaling %q is not supported; supported are none, linear, yarn", key("rope.scaling.type"), v)
	}
	c.Rope = readRope(m, &c, fam.style)
	c.Threshold = float32(m.within("powerinfer.sparse_threshold", 0, math.Inf(-1), math.Inf(1)))
	original := f.Magic == "PWRI"
	if original && !fam.sparse {
		m.fail("original PowerInfer files of architecture %q do not exist; supported are bamboo, falcon, llama, opt", c.Arch)
	}
	if m.err != nil {
		return c, m.err
	}
	if c.HeadDim%8 != 0 || c.HeadDim > 512 {
		return c, fmt.Errorf("%s: heads of %d elements are not supported; a multiple of 8 up to 512 is", f.Path, c.HeadDim)
	}
	embd := f.Tensor("token_embd.weight")
	if embd == nil {
		return c, fmt.Errorf("%s: tensor \"token_embd.weight\" is missing; this file holds no model", f.Path)
	}
	c.Vocab = embd.Rows()
	var err error
	if c.Act, err = readActivation(m, fam, original, activation); err != nil {
		return c, err
	}
	info, ok, err := prepared.Read(f)
	if ok {
		c.Prepared = &info
	}
	c.Predictors, c.Transposed = original || ok, original || ok
	return c, err
}

// readActivation applies DESIGN's order: the override, the file's key, else what the architecture and magic imply.
func readActivation(m *metadata, fam family, predicted bool, override string) (compute.Activation, error) {
	name := override
	if name == "" {
		name = m.text("powerinfer.activation", "")
	}
	act := compute.Activation{Kind: fam.act, Threshold: float32(m.within("powerinfer.activation_threshold", 0.01, -math.MaxFloat32, math.MaxFloat32))}
	if m.err != nil {
		return act, m.err
	}
	if name == "" {
		if predicted && !act.Sparse() {
			act.Kind = compute.ReLU
		}
		return act, nil
	}
	kind, threshold, hasThreshold := strings.Cut(strings.ToLower(name), ":")
	act.Kind = compute.SiLU
	for act.Kind <= compute.ReLU2 && act.Kind.String() != kind {
		act.Kind++
	}
	if act.Kind > compute.ReLU2 {
		return act, fmt.Errorf("%s: activation %q is not supported; supported are silu, gelu, relu, fatrelu[:threshold], drelu, relu2", m.f.Path, name)
	}
	if hasThreshold {
		v, err := strconv.ParseFloat(threshold, 32)
		if err != nil || math.IsNaN(v) || act.Kind != compute.FATReLU {
			return act, fmt.Errorf("%s: activation %q: only fatrelu has a threshold, and it is a number", m.f.Path, name)
		}
		act.Threshold = float32(v)
	}
	return act, nil
}
