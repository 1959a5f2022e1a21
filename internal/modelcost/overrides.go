package modelcost

import (
	"strings"
	"time"

	"github.com/dlclark/regexp2"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/nn"
	"github.com/powerinfer-go/powerinfer/internal/placement"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// Override says where tensors are, by their names, as an item of llama.cpp's --override-tensor does.
type Override struct {
	pattern string
	buffer  string
	match   *regexp2.Regexp
	tier    compute.Tier
}

// BufferCPU is the buffer type of RAM.
const BufferCPU = "CPU"

// matchTime bounds how long a pattern may take for one name: expressions that go back and forth can take for ever.
const matchTime = 100 * time.Millisecond

// ParseOverrides reads items PATTERN=BUFFER; a text may hold several of them, separated by commas. A pattern is a
// regular expression as in ECMAScript, which matches anywhere in a tensor's name. A buffer is CPU or one of gpus; its
// position in the list is the GPU's number.
func ParseOverrides(texts, gpus []string) ([]Override, error) {
	var list []Override
	for _, text := range texts {
		for item := range strings.SplitSeq(text, ",") {
			o, err := parseOverride(item, gpus)
			if err != nil {
				return nil, err
			}
			list = append(list, o)
		}
	}
	return list, nil
}

func parseOverride(item string, gpus []string) (o Override, err error) {
	var ok bool
	if o.pattern, o.buffer, ok = strings.Cut(item, "="); !ok || o.pattern == "" {
		return o, setting.Errorf("%s %.80q is not PATTERN=BUFFER, as in %s=%s", setting.Tensors, item, `\.ffn_.*_exps\.`, BufferCPU)
	}
	if o.match, err = regexp2.Compile(o.pattern, regexp2.ECMAScript); err != nil {
		return o, setting.Errorf("%s %.80q: the pattern is no regular expression: %w", setting.Tensors, item, err)
	}
	o.match.MatchTimeout = matchTime
	o.tier = compute.RAM
	if o.buffer == BufferCPU {
		return o, nil
	}
	for j, name := range gpus {
		if o.buffer == name {
			o.tier = compute.Tier(j)
			return o, nil
		}
	}
	return o, setting.Errorf("%s %.80q: no buffer type is called %.40q; there are: %s", setting.Tensors, item, o.buffer, strings.Join(append([]string{BufferCPU}, gpus...), ", "))
}

// part is a group of tensors of a layer, or of the rest of a model, that are in one place.
type part int

const (
	partUnits     part = iota // experts, or neurons
	partAttention             // everything else of a layer without its own part: routers and shared experts, too
	partPredictor
	partHead
	partTables // embedding tables that are not the head
	partCommon // vectors, which every processor has; experts' predictors, which follow their experts; and tensors that are not read
)

// says describes the part in a sentence, with a pattern that matches it.
func (p part) says(experts bool) string {
	switch {
	case p == partUnits && experts:
		return `all experts of a layer lie together: match them with \.ffn_(gate|up|down)_exps`
	case p == partUnits:
		return `all neurons of a layer lie together: match them with \.ffn_(gate|up|down)\.`
	case p == partPredictor:
		return `both matrices of a layer's predictor lie together: match them with \.fc[12]\.`
	case p == partHead:
		return "all matrices of the head lie together: match them with ^output"
	case experts:
		return `attention, router and shared experts of a layer lie together: match all of the layer, as blk\.3\. does, or the experts alone, as \.ffn_.*_exps does`
	}
	return `what is attention's in a layer lies together: match all of the layer, as blk\.3\. does, or its neurons alone, as \.ffn_(gate|up|down)\. does`
}

// pinned is the first tensor of a part, and the override that places it.
type pinned struct {
	tensor string
	by     *Override // nil: nowhere in particular
}

// Pin pins each tensor to the place of the first override that matches its name. It returns the patterns that match no
// tensor. It refuses what a plan cannot divide.
func (b *Cost) Pin(list []Override) (unmatched []string, err error) {
	c, err := model.ReadConfig(b.File, b.Activation)
	if err != nil {
		return nil, err
	}
	b.Model = b.Model.Free()
	matched := make([]bool, len(list))
	type key struct {
		layer int
		part  part
	}
	first := map[key]pinned{}
	for _, t := range b.File.Tensors {
		layer, p := b.partOf(&c, t)
		now := pinned{tensor: t.Name}
		for i := range list {
			hit, err := list[i].match.MatchString(t.Name)
			if err != nil {
				return nil, setting.Errorf("%s: matching %q with %q takes too long; write a simpler pattern", setting.Tensors, t.Name, list[i].pattern)
			}
			if hit && now.by == nil {
				now.by = &list[i]
			}
			matched[i] = matched[i] || hit
		}
		if p == partCommon || p == partTables {
			if p == partTables && now.by != nil && now.by.tier != compute.RAM {
				return nil, setting.Errorf("%s: %q matches %s, which stays in RAM, where a token reads one row of it; match fewer tensors, as blk\\. does", setting.Tensors, now.by.pattern, t.Name)
			}
			continue
		}
		k := key{layer, p}
		before, ok := first[k]
		if !ok {
			first[k] = now
			if err := b.pin(layer, p, now); err != nil {
				return nil, err
			}
			continue
		}
		if !before.alike(&now) {
			experts := layer < len(b.Model.Layers) && b.Model.Layers[layer].Experts
			return nil, setting.Errorf("%s: %s would lie %s and %s %s, but %s", setting.Tensors, before.tensor, before.where(), now.tensor, now.where(), p.says(experts))
		}
	}
	for l := range b.Model.Layers {
		if !b.Model.Layers[l].Possible() {
			return nil, setting.Errorf("%s: the predictor of layer %d (fc1, fc2) lies on a GPU beside another part of its layer; match all of the layer, as blk\\.%d\\. does", setting.Tensors, l, l)
		}
	}
	for i, ok := range matched {
		if !ok {
			unmatched = append(unmatched, list[i].pattern)
		}
	}
	return unmatched, nil
}

// PinKV pins the keys and values of all layers to RAM, and their attention with them. It adds to Pin, which is called
// before.
func (b *Cost) PinKV() error {
	for l := range b.Model.Layers {
		y := &b.Model.Layers[l]
		if y.Pins.Attention == placement.OnGPU {
			return setting.Errorf("%s: attention of layer %d would lie on a GPU by %s, and keys and values lie beside it; "+
				`match neurons or experts alone, as \.ffn_ does`, setting.KVInRAM, l, setting.Tensors)
		}
		y.Pins.Attention = placement.InRAM
		if !y.Possible() {
			return setting.Errorf("%s: the predictor of layer %d (fc1, fc2) would lie on a GPU alone by %s; match its neurons, too, as \\.(fc|ffn_) does", setting.KVInRAM, l, setting.Tensors)
		}
	}
	return nil
}

func (p *pinned) alike(q *pinned) bool {
	if p.by == nil || q.by == nil {
		return p.by == q.by
	}
	return p.by.tier == q.by.tier
}

func (p *pinned) where() string {
	if p.by == nil {
		return "where it serves best"
	}
	return "on " + p.by.buffer
}

// pin holds a part of a layer.
func (b *Cost) pin(layer int, p part, at pinned) error {
	if at.by == nil {
		return nil
	}
	pins := &b.Model.HeadPins
	if p != partHead {
		pins = &b.Model.Layers[layer].Pins
	}
	where := placement.InRAM
	if at.by.tier != compute.RAM {
		if pins.OnGPU() && pins.GPU != at.by.tier {
			return setting.Errorf("%s: %s would lie on %s, and other tensors of its layer on another GPU; a layer lies on one GPU, and in RAM", setting.Tensors, at.tensor, at.by.buffer)
		}
		where, pins.GPU = placement.OnGPU, at.by.tier
	}
	switch p {
	case partUnits:
		pins.Units = where
	case partPredictor:
		pins.Predictor = where
	default:
		pins.Attention = where
	}
	return nil
}

// partOf returns the part of model c that a tensor belongs to, and its layer.
func (b *Cost) partOf(c *model.Config, t *gguf.Tensor) (layer int, p part) {
	of, ok := c.Purpose(t.Name)
	switch {
	case !ok || len(t.Shape) < 2 || of.Layer >= len(b.Model.Layers):
		return 0, partCommon
	case of.Role == nn.InHead:
		return len(b.Model.Layers), partHead
	case of.Role == nn.InTable:
		return 0, partTables
	case of.Role == nn.PredictsExperts, of.Role == nn.OfPredictor && b.Model.Layers[of.Layer].Predictor == 0: // they go where their experts go, or are not loaded
		return of.Layer, partCommon
	case of.Role == nn.OfExperts, of.Role == nn.OfNeurons:
		return of.Layer, partUnits
	case of.Role == nn.OfPredictor:
		return of.Layer, partPredictor
	}
	return of.Layer, partAttention
}
