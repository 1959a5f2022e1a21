package convert

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// pruned says which layers of a file are left out, and renames the others.
type pruned struct {
	arch   string
	layers int         // that the file has
	number map[int]int // by number in the file; layers that are left out have none
}

// prune numbers the layers that are left. An error names a layer that the file does not have.
func (q *Quantization) prune(f *gguf.File) (*pruned, error) {
	if len(q.Prune) == 0 {
		return nil, nil
	}
	p := &pruned{number: map[int]int{}}
	for _, kv := range f.Keys {
		if kv.Key == "general.architecture" {
			p.arch, _ = kv.Value.(string)
		}
		// the activation's keys are in converted files, too
		if strings.HasPrefix(kv.Key, "powerinfer.") && !strings.HasPrefix(kv.Key, "powerinfer.activation") {
			return nil, fmt.Errorf("%s: a prepared file's layers cannot be left out: prune the model before you prepare it", f.Path)
		}
	}
	if p.layers = firstInt(f.Keys, p.arch+".block_count"); p.layers <= 0 {
		return nil, fmt.Errorf("%s: the file does not say how many layers it has (%s.block_count); none can be left out", f.Path, p.arch)
	}
	for _, l := range q.Prune {
		if l < 0 || l >= p.layers {
			return nil, fmt.Errorf("%s: there is no layer %d to leave out: the model has layers 0 to %d", f.Path, l, p.layers-1)
		}
	}
	for l := range p.layers {
		if !slices.Contains(q.Prune, l) {
			p.number[l] = len(p.number)
		}
	}
	if len(p.number) == 0 {
		return nil, fmt.Errorf("%s: no layer would be left", f.Path)
	}
	return p, nil
}

// tensor returns t as it is called in the output; nil if its layer is left out.
func (p *pruned) tensor(t *gguf.Tensor) *gguf.Tensor {
	layer, part, ok := layerOf(t.Name)
	if p == nil || !ok {
		return t
	}
	number, left := p.number[layer]
	if !left {
		return nil
	}
	renamed := *t
	renamed.Name = fmt.Sprintf("blk.%d.%s", number, part)
	return &renamed
}

// keys returns the output's keys: with another number of layers, and with shorter lists.
func (p *pruned) keys(keys []gguf.KV) []gguf.KV {
	if p == nil {
		return keys
	}
	keys = slices.Clone(keys)
	for i, kv := range keys {
		if kv.Key == p.arch+".block_count" {
			keys[i].Value = uint32(len(p.number))
			continue
		}
		v := reflect.ValueOf(kv.Value)
		if !strings.HasPrefix(kv.Key, p.arch+".") || v.Kind() != reflect.Slice || v.Len() != p.layers {
			continue
		}
		left := reflect.MakeSlice(v.Type(), 0, len(p.number))
		for l := range p.layers {
			if _, ok := p.number[l]; ok {
				left = reflect.Append(left, v.Index(l))
			}
		}
		keys[i].Value = left.Interface()
	}
	return keys
}

// ParseLayers reads numbers of layers, separated by commas.
func ParseLayers(s string) ([]int, error) {
	var layers []int
	for word := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%.40q is not a list of layers, as 3,4,5", s)
		}
		layers = append(layers, n)
	}
	return layers, nil
}
