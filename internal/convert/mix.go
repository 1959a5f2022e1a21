package convert

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Output is the form in which matrices are stored: all of one type, or by a mix of types that has a name of its own.
type Output struct {
	Type quant.Type
	More bool // store the matrices that matter most with more bits: Q5_K's are Q6_K then, which llama.cpp calls Q5_K_M
}

// fileTypeQ5_K_M is general.file_type of that mix, as llama.cpp numbers it.
const fileTypeQ5_K_M = 17

// mixes returns the names that stand for more than a type. Q5_K_S is what Q5_K gives.
func mixes() map[string]Output {
	return map[string]Output{"q5_k_s": {Type: quant.Q5_K}, "q5_k_m": {Type: quant.Q5_K, More: true}}
}

// OutTypes names what ParseOutput takes, for flags and error messages.
func OutTypes() string {
	names := strings.Split(strings.ToLower(quant.Names(quant.OutTypes())), ", ")
	at := slices.Index(names, "q5_k") + 1
	return strings.Join(slices.Insert(names, at, "q5_k_s", "q5_k_m"), ", ")
}

// ParseOutput reads the name of a type or of a mix, in upper or lower case.
func ParseOutput(name string) (Output, error) {
	if t, ok := quant.Named(name, quant.OutTypes()); ok {
		return Output{Type: t}, nil
	}
	if o, ok := mixes()[strings.ToLower(name)]; ok {
		return o, nil
	}
	return Output{}, fmt.Errorf("output type %q is not supported; supported are %s", name, OutTypes())
}

// check refuses a type that is not written, and a mix that there is not.
func (o Output) check() error {
	if !slices.Contains(quant.OutTypes(), o.Type) {
		return fmt.Errorf("output type %s is not supported; supported are %s", o.Type, OutTypes())
	}
	if o.More && o.Type != quant.Q5_K {
		return fmt.Errorf("there is no mix of %s with more bits; there is one of %s", o.Type, quant.Q5_K)
	}
	return nil
}

// fileType returns general.file_type.
func (o Output) fileType() uint32 {
	if o.More {
		return fileTypeQ5_K_M
	}
	n, _ := o.Type.FileType()
	return n
}

// wantsMore reports whether the mix stores the matrix called name, in a model of so many layers, with more bits. Source: llama.cpp's
// quantisation mixes: values and down projections in the first and the last eighth of the layers and in every third between them, and
// fused queries, keys and values in all.
func (o Output) wantsMore(name string, layers int) bool {
	l, part, ok := layerOf(name)
	if !o.More || !ok {
		return false
	}
	switch part {
	case "attn_qkv.weight":
		return true
	case "attn_v.weight", "ffn_down.weight", "ffn_down_exps.weight":
		return l < layers/8 || l >= 7*layers/8 || (l-layers/8)%3 == 2
	}
	return false
}

// layerOf returns the layer that a tensor's name begins with, and the rest of the name.
func layerOf(name string) (layer int, part string, ok bool) {
	rest, ok := strings.CutPrefix(name, "blk.")
	if !ok {
		return 0, "", false
	}
	number, part, ok := strings.Cut(rest, ".")
	layer, err := strconv.Atoi(number)
	return layer, part, ok && err == nil
}

// layersOf returns how many layers a model with tensors of these names has.
func layersOf(names []string) int {
	n := 0
	for _, name := range names {
		if l, _, ok := layerOf(name); ok {
			n = max(n, l+1)
		}
	}
	return n
}
