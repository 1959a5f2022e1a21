package convert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// adapterConfig is the name of the file that makes a folder a PEFT adapter.
const adapterConfig = "adapter_config.json"

// IsAdapter reports whether folder dir holds a PEFT adapter instead of a model.
func IsAdapter(dir string) bool { return checkpoint.Exists(filepath.Join(dir, adapterConfig)) }

// peft is the content of adapter_config.json.
type peft struct {
	Type          string   `json:"peft_type"`
	Base          string   `json:"base_model_name_or_path"`
	Alpha         float64  `json:"lora_alpha"`
	Rank          int      `json:"r"`
	ByRootOfRank  bool     `json:"use_rslora"`
	Dora          bool     `json:"use_dora"`
	Alphas        patterns `json:"alpha_pattern"`
	Bias          string   `json:"bias"`
	Invocation    []int    `json:"alora_invocation_tokens"`
	WholeModules  []string `json:"modules_to_save"`
	adapterFolder string
}

// Adapter converts the LoRA adapter that PEFT saved in folder dir to the GGUF file outfile, as llama.cpp's --lora reads
// it. base is the folder of the adapter's model; Adapter reads only its config.json. Empty: the folder that the adapter
// names, if it is one. Errors name the file and the key or tensor.
func Adapter(ctx context.Context, dir, base, outfile string, o Options) error {
	if err := o.Output.check(); err != nil {
		return err
	}
	if o.Output.base.Quantised() {
		return fmt.Errorf("an adapter is written in f32, f16 or bf16, not in %s", o.Output)
	}
	adapter, err := readPEFT(dir)
	if err != nil {
		return err
	}
	c, err := adapter.model(base)
	if err != nil {
		return err
	}
	fam, err := c.family()
	if err != nil {
		return err
	}
	source, err := checkpoint.OpenAdapter(dir)
	if err != nil {
		return err
	}
	defer source.Close()
	p, err := pairsOf(source)
	if err != nil {
		return err
	}
	p.family, p.factor = fam, adapter.factor
	sizes, _, err := c.keys(fam)
	if err != nil {
		return err
	}
	p.model(c, sizes, nil)
	if err := p.finish(o.tell); err != nil {
		return err
	}
	keys := []gguf.KV{
		{Key: "general.architecture", Value: fam.Name},
		{Key: "general.type", Value: "adapter"},
		{Key: "general.name", Value: o.name(dir, &config{})},
		{Key: "general.file_type", Value: o.Output.fileType},
		{Key: "general.quantization_version", Value: uint32(quantizationVersion)},
		{Key: "adapter.type", Value: "lora"},
		{Key: "adapter.lora.alpha", Value: float32(adapter.alpha())},
	}
	return gguf.Create(ctx, outfile, "GGUF", keys, sources(p.tensors, keys, o), o.Progress)
}

// readPEFT reads the settings of the adapter in dir, and refuses those that a GGUF adapter cannot express.
func readPEFT(dir string) (*peft, error) {
	c, path := &peft{adapterFolder: dir}, filepath.Join(dir, adapterConfig)
	if err := checkpoint.ReadJSON(path, c); err != nil {
		return nil, err
	}
	fail := func(key, why string) error { return fmt.Errorf("%s: key %q: %s", path, key, why) }
	switch {
	case c.Type != "LORA":
		return nil, fail("peft_type", fmt.Sprintf("%.40q is no LoRA adapter, and only those can be converted", c.Type))
	case c.Dora:
		return nil, fail("use_dora", "DoRA scales the model's weights, which an adapter in GGUF cannot: merge it into the model and convert that")
	case len(c.Invocation) > 0:
		return nil, fail("alora_invocation_tokens", "adapters that begin at invocation tokens (aLoRA) are not supported")
	case len(c.WholeModules) > 0:
		return nil, fail("modules_to_save", fmt.Sprintf("%s are replaced as a whole, which an adapter in GGUF cannot: merge the adapter into the model and convert that", strings.Join(c.WholeModules, ", ")))
	case c.Rank < 1 || !(math.Abs(c.Alpha) <= math.MaxFloat32) || c.Alpha == 0:
		return nil, fail("lora_alpha", fmt.Sprintf("an alpha of %g and a rank of %d make no adapter", c.Alpha, c.Rank))
	}
	return c, nil
}

// alpha returns the file's alpha: divided by a module's rank, it is the scale of the module's change.
func (c *peft) alpha() float64 { return c.alphaOf(c.Alpha, c.Rank) }

// alphaOf returns the number that gives, divided by a rank, the scale of a module with that alpha.
func (c *peft) alphaOf(alpha float64, rank int) float64 {
	if c.ByRootOfRank { // which scales by alpha/√rank
		return alpha * math.Sqrt(float64(rank))
	}
	return alpha
}

// factor returns the factor of a module's matrix B with which the file's one alpha gives the scale of the module's own
// alpha and rank. The module's name is the model's.
func (c *peft) factor(module string, rank int) float64 {
	alpha := c.Alpha
	if v, ok := c.Alphas.of(module); ok {
		alpha = v
	}
	return c.alphaOf(alpha, rank) / c.alpha()
}

// patterns are numbers of modules, by expressions for their names, in the file's order.
type patterns []pattern

type pattern struct {
	name   *regexp.Regexp
	number float64
}

// UnmarshalJSON implements json.Unmarshaler. It keeps the order, because the first expression that matches counts.
func (p *patterns) UnmarshalJSON(data []byte) error {
	*p = nil
	if string(data) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if tok, err := d.Token(); err != nil || tok != json.Delim('{') {
		return errors.New("it is not an object of modules' names and numbers")
	}
	for d.More() {
		tok, err := d.Token()
		name, ok := tok.(string)
		if err != nil || !ok {
			return errors.New("it is not an object of modules' names and numbers")
		}
		var number float64
		if err := d.Decode(&number); err != nil {
			return fmt.Errorf("%.80q has no number", name)
		}
		// PEFT's rule: the expression matches a whole name, or all of it after a dot.
		expression, err := regexp.Compile(`^(?:.*\.)?(?:` + name + `)$`)
		if err != nil {
			return fmt.Errorf("%.80q is an expression that is not supported: merge the adapter into the model and convert that", name)
		}
		*p = append(*p, pattern{expression, number})
	}
	return nil
}

// of returns the number for a module, if a pattern matches it.
func (p patterns) of(module string) (float64, bool) {
	for _, x := range p {
		if x.name.MatchString(module) {
			return x.number, true
		}
	}
	return 0, false
}

// model reads the configuration of the model that the adapter is for.
func (c *peft) model(base string) (*config, error) {
	if base == "" {
		base = c.Base
		if !checkpoint.Exists(filepath.Join(base, "config.json")) {
			return nil, fmt.Errorf("%s: the adapter is for %.200q, which is no folder here: name the folder of that model's config.json with --base", filepath.Join(c.adapterFolder, adapterConfig), base)
		}
	}
	return readConfig(base)
}

// pair is an adapter's two matrices for one of the model's: they change it by B·A.
type pair struct{ a, b *checkpoint.Tensor }

// The ends of PEFT's names, and the prefix of a module's own name.
const (
	peftA, peftB, peftRoot = ".lora_A.weight", ".lora_B.weight", "base_model.model."
)

// pairsOf returns a plan of an adapter's pairs. The plan's source has the names of the model's matrices that the pairs
// change.
func pairsOf(source *checkpoint.Checkpoint) (*plan, error) {
	p := &plan{pairs: map[string]pair{}, used: map[string]bool{}, source: &checkpoint.Checkpoint{Path: source.Path, Tensors: map[string]*checkpoint.Tensor{}}}
	for _, name := range slices.Sorted(maps.Keys(source.Tensors)) {
		t := source.Tensors[name]
		module, isA := strings.CutSuffix(name, peftA)
		isB := false
		if !isA {
			module, isB = strings.CutSuffix(name, peftB)
		}
		if !isA && !isB {
			return nil, fmt.Errorf("%s: tensor %q is neither a %s nor a %s: merge the adapter into the model and convert that", source.Path, name, peftA[1:], peftB[1:])
		}
		if len(t.Shape) != 2 {
			return nil, fmt.Errorf("%s: tensor %q has shape %v instead of two dimensions", source.Path, name, t.Shape)
		}
		if _, ok := t.Type(); !ok {
			return nil, fmt.Errorf("%s: tensor %q has dtype %s; supported are F32, F16, BF16", source.Path, name, t.DType)
		}
		module = strings.TrimPrefix(module, peftRoot) + ".weight"
		both := p.pairs[module]
		if isA {
			both.a = t
		} else {
			both.b = t
		}
		p.pairs[module] = both
	}
	for module, both := range p.pairs {
		if both.a == nil || both.b == nil || both.a.Shape[0] != both.b.Shape[1] {
			return nil, fmt.Errorf("%s: %q has not two matrices of one rank: the adapter is damaged", source.Path, module)
		}
		p.source.Tensors[module] = &checkpoint.Tensor{Name: module, Shape: []int{both.b.Shape[0], both.a.Shape[1]}}
	}
	if len(p.pairs) == 0 {
		return nil, errors.New(source.Path + ": the adapter holds no matrices")
	}
	return p, nil
}

// pair plans the adapter's two matrices for the model's tensor name, if there are any, and returns the second, which
// has the rows of the model's.
func (p *plan) pair(name, from string, dims, stored []int) *tensor {
	both, ok := p.pairs[from]
	if !ok || p.err != nil {
		return &tensor{name: name}
	}
	p.used[from] = true
	switch {
	case name == "token_embd.weight" || name == "position_embd.weight" || len(dims) != 2:
		p.err = fmt.Errorf("%s: adapters of %q are not supported; merge the adapter into the model and convert that", p.source.Path, from)
	case both.b.Shape[0] != stored[0] || both.a.Shape[1] != dims[1]:
		p.err = fmt.Errorf("%s: %q changes a matrix of [%d %d], and config.json makes it %v", p.source.Path, from, both.b.Shape[0], both.a.Shape[1], stored)
	}
	rank := both.a.Shape[0]
	a := &tensor{name: name + ".lora_a", shape: []int{dims[1], rank}, stack: stack{}.and(section{Tensor: both.a})}
	b := &tensor{name: name + ".lora_b", shape: []int{rank, dims[0]}, stack: stack{}.and(section{Tensor: both.b})}
	if by := p.factor(strings.TrimSuffix(from, ".weight"), rank); by != 1 {
		b.change(rowsTimes{{By: by}})
	}
	p.tensors = append(p.tensors, a, b)
	return b
}

// beginning returns the first of prefixes that begins names of the adapter's modules, or the first of all. Anything may
// follow %d.
func (p *plan) beginning(root string, prefixes []string) string {
	for _, prefix := range prefixes {
		start, _, _ := strings.Cut(root+prefix, "%d")
		for module := range p.pairs {
			if strings.HasPrefix(module, start) {
				return prefix
			}
		}
	}
	return prefixes[0]
}
