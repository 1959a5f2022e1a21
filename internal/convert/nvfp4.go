package convert

import (
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// Folders in NVFP4 come from NVIDIA's ModelOpt and from llm-compressor (compressed-tensors). A matrix W is there as
//
//	W.weight, W.weight_packed         codes, two to a byte, the first in the lower half
//	W.weight_scale                    E4M3, one for 16 elements
//	W.weight_scale_2                  the factor of all scales, one number
//	W.weight_global_scale             its reciprocal
//	W.input_scale, .input_global_scale  the same of activations
//
// the second name being llm-compressor's. The codes and scales become GGUF's NVFP4 bit for bit, as llama.cpp's
// converter has it; the factors become tensors of their own, W.scale and W.input_scale, which are left out where they
// are one.

// nvfp4Shared is the number of elements with one scale, nvfp4Block the number in GGUF's blocks.
const (
	nvfp4Shared = 16
	nvfp4Block  = 64
)

// smallFloats are the scales and factors of a matrix in NVFP4, without its codes.
type smallFloats struct {
	scales        *checkpoint.Tensor
	factor, input *checkpoint.Tensor // nil: one
	reciprocal    bool               // they divide
}

// quantizing says how the weights were quantised, according to config.json or hf_quant_config.json in its folder.
type quantizing struct {
	Method string `json:"quant_method"`
	Algo   string `json:"quant_algo"`
	Format string `json:"format"`
	Linear string `json:"linear_class"`      // in BitNet
	Mode   string `json:"quantization_mode"` // in BitNet
	Block  []int  `json:"weight_block_size"` // rows and columns of a block of floats of eight bits
	Groups map[string]struct {
		Format  string `json:"format"`
		Weights struct {
			Block []int `json:"block_structure"`
			Bits  int   `json:"num_bits"`
			Group int   `json:"group_size"`
		} `json:"weights"`
	} `json:"config_groups"`
}

// packing returns how matrices may be packed; nil: in a form that is not supported here. Which matrices are packed shows
// in the folder's tensors.
func (q *quantizing) packing() *checkpoint.Packing {
	p, ok := &checkpoint.Packing{}, true
	if q == nil {
		return p
	}
	switch q.Method {
	case "compressed-tensors":
		if q.Format == "mxfp4-pack-quantized" {
			return p
		}
		for _, g := range q.Groups {
			p.Block, p.Bits, p.Group = g.Weights.Block, g.Weights.Bits, max(0, g.Weights.Group)
		}
		switch q.Format {
		case "pack-quantized":
			ok = len(q.Groups) == 1
		case "float-quantized", "naive-quantized", "int-quantized":
			p.Bits, p.Eights, ok = 0, true, len(q.Groups) <= 1
		default:
			ok = false
		}
	case "modelopt":
		p.Eights = q.Algo == "FP8" || q.Algo == "MIXED_PRECISION"
		ok = p.Eights
	case "bitnet":
		p.Thirds, p.Divides = q.Mode != "online", q.Linear != "autobitlinear"
	case "fp8":
		p.Eights, p.Block = true, q.Block
	default:
		ok = q.Method == "mxfp4"
	}
	if !ok {
		return nil
	}
	return p
}

// nvfp4 reports whether matrices may be in NVFP4. Which are shows in the folder's tensors.
func (q *quantizing) nvfp4() bool {
	const packed = "nvfp4-pack-quantized"
	switch {
	case q == nil:
		return false
	case q.Method == "compressed-tensors":
		if q.Format == packed {
			return true
		}
		for _, g := range q.Groups {
			if g.Format != packed {
				return false
			}
		}
		return q.Format == "mixed-precision" && len(q.Groups) > 0
	}
	return q.Method == "modelopt" && (strings.HasSuffix(q.Algo, "NVFP4") || q.Algo == "MIXED_PRECISION")
}

// readQuantizing reads hf_quant_config.json in dir, which older folders of ModelOpt have for settings that config.json
// lacks; nil if it is absent.
func readQuantizing(dir string) (*quantizing, error) {
	path := filepath.Join(dir, "hf_quant_config.json")
	if !checkpoint.Exists(path) {
		return nil, nil
	}
	var file struct {
		Producer struct {
			Name string `json:"name"`
		} `json:"producer"`
		Quantization quantizing `json:"quantization"`
	}
	if err := checkpoint.ReadJSON(path, &file); err != nil {
		return nil, err
	}
	q := &file.Quantization
	if q.Method == "" {
		q.Method = strings.ToLower(file.Producer.Name)
	}
	return q, nil
}

// findSmallFloats finds the matrices in NVFP4, and renames their tensors to ModelOpt's names.
func (p *plan) findSmallFloats() {
	tensors := p.source.Tensors
	reciprocal := map[string]bool{}
	for _, names := range [][2]string{{".weight_packed", ".weight"}, {".weight_global_scale", ".weight_scale_2"}, {".input_global_scale", ".input_scale"}} {
		for name, t := range tensors {
			base, ok := strings.CutSuffix(name, names[0])
			if !ok || tensors[base+names[1]] != nil {
				continue
			}
			delete(tensors, name)
			tensors[base+names[1]] = t
			reciprocal[base] = true
		}
	}
	p.small = map[string]*smallFloats{}
	for name, scales := range tensors {
		base, ok := strings.CutSuffix(name, ".weight_scale")
		codes := tensors[base+".weight"]
		if ok && codes != nil && codes.DType == "U8" && scales.DType == "F8_E4M3" && len(scales.Shape) == 2 {
			p.small[base+".weight"] = &smallFloats{scales, tensors[base+".weight_scale_2"], tensors[base+".input_scale"], reciprocal[base]}
		}
		if strings.HasSuffix(name, ".k_scale") || strings.HasSuffix(name, ".v_scale") { // scales of a cache in eight bits
			p.leave(name)
		}
	}
}

// leave leaves a tensor out that computing does not need.
func (p *plan) leave(name string) {
	if p.source.Tensors[name] != nil && !p.used[name] {
		p.used[name] = true
		p.unneeded = append(p.unneeded, name)
	}
}

// fromSmall plans output tensor name of shape dims from a matrix in NVFP4. The matrix must have shape stored (both
// outermost first).
func (p *plan) fromSmall(name, from string, f *smallFloats, dims, stored []int) *tensor {
	t := &tensor{name: name}
	codes, cols := p.source.Tensors[from], stored[len(stored)-1]
	narrow := func(by int) []int { return append(slices.Clone(stored[:len(stored)-1]), cols/by) }
	for s, want := range map[*checkpoint.Tensor][]int{codes: narrow(2), f.scales: narrow(nvfp4Shared)} {
		if !slices.Equal(s.Shape, want) || cols%nvfp4Block != 0 {
			p.err = fmt.Errorf("%s: offset %d: tensor %q has shape %v; rows of %d elements, which config.json says there are, make it %v in NVFP4, and must divide into blocks of %d",
				s.Path(), s.Offset, s.Name, s.Shape, cols, want, nvfp4Block)
			return t
		}
	}
	base := strings.TrimSuffix(from, ".weight")
	for _, end := range []string{"", "_scale", "_scale_2"} {
		p.used[from+end] = true
	}
	p.used[base+".input_scale"] = true
	t.stack = t.stack.and(section{Tensor: codes, small: f})
	t.shape = slices.Clone(dims)
	slices.Reverse(t.shape)
	p.tensors = append(p.tensors, t)
	return t
}

// finishSmall refuses outputs that cannot be made from matrices in NVFP4, and plans the tensors of their factors.
func (p *plan) finishSmall() {
	var all []*tensor
	for _, t := range p.tensors {
		all = append(all, t)
		if !t.codes() {
			continue
		}
		others := slices.ContainsFunc(t.stack, func(p section) bool { return p.small == nil })
		if !t.intact() || others || !strings.HasSuffix(t.name, ".weight") {
			p.err = fmt.Errorf("%s: tensor %q is in NVFP4, and %q is made of it in another order than its rows have, or of others that are not: this is not supported; convert the model that it was made from",
				t.stack[0].Path(), t.stack[0].Name, t.name)
			return
		}
		for _, side := range []struct {
			end string
			of  func(*smallFloats) *checkpoint.Tensor
		}{{".scale", func(f *smallFloats) *checkpoint.Tensor { return f.factor }}, {".input_scale", func(f *smallFloats) *checkpoint.Tensor { return f.input }}} {
			values, err := factors(t.stack, side.of)
			if err != nil {
				p.err = err
				return
			}
			if slices.ContainsFunc(values, func(v float32) bool { return math.Abs(float64(v)-1) > nearOne }) {
				name := strings.TrimSuffix(t.name, ".weight") + side.end
				all = append(all, &tensor{name: name, shape: []int{len(values)}, values: values, as: asFloats})
			}
		}
	}
	p.tensors = all
}

// nearOne is the largest distance from one at which a factor is left out.
const nearOne = 1e-6

// factors reads one number of each matrix.
func factors(all stack, of func(*smallFloats) *checkpoint.Tensor) (values []float32, err error) {
	for _, p := range all {
		v := float32(1)
		if t := of(p.small); t != nil {
			if v, err = readFactor(t); err != nil {
				return nil, err
			}
			if p.small.reciprocal {
				v = 1 / v
			}
			if !(v > 0) || math.IsInf(float64(v), 0) {
				return nil, fmt.Errorf("%s: offset %d: tensor %q makes a factor of %g; the model is damaged", t.Path(), t.Offset, t.Name, v)
			}
		}
		values = append(values, v)
	}
	return values, nil
}

// readFactor reads a tensor of one number.
func readFactor(t *checkpoint.Tensor) (float32, error) {
	typ, ok := t.Type()
	if !ok || t.Bytes != int64(typ.BlockBytes()) {
		return 0, fmt.Errorf("%s: offset %d: tensor %q is %s of shape %v instead of one number", t.Path(), t.Offset, t.Name, t.DType, t.Shape)
	}
	b, v := make([]byte, t.Bytes), make([]float32, 1)
	if err := t.ReadAt(b, 0); err != nil {
		return 0, err
	}
	quant.Decode(typ, v, b)
	return v[0], nil
}

// repackSmall fills l.out with rows [from, to) of t in GGUF's NVFP4 layout: four scales, then the codes of each 16
// elements in eight bytes. Byte i holds element i in its low half and element i+8 in its high half. In the source a
// byte holds elements 2i and 2i+1.
func (l *lane) repackSmall(t *tensor, rowLen, from, to int) error {
	l.raw = resize(l.raw, rowLen/2+rowLen/nvfp4Shared)
	codes, scales := l.raw[:rowLen/2], l.raw[rowLen/2:]
	out := l.out
	for r := from; r < to; r++ {
		at := r
		if t.row != nil {
			at = t.row(r)
		}
		p, begin, _ := t.stack.at(at, rowLen)
		f, row := p.small, int64(at-begin)
		if err := p.ReadAt(codes, row*int64(len(codes))); err != nil {
			return err
		}
		if err := f.scales.ReadAt(scales, row*int64(len(scales))); err != nil {
			return err
		}
		for b := range rowLen / nvfp4Block {
			for g, s := range scales[4*b:][:4] {
				if s&0x7f == 0x7f {
					return fmt.Errorf("%s: offset %d: tensor %q holds NaN; the model is damaged", f.scales.Path(), f.scales.Offset, f.scales.Name)
				}
				out[g] = s & 0x7f // scales have no sign
				in := binary.LittleEndian.Uint64(codes[32*b+8*g:])
				for i := range 8 {
					low, high := in>>(4*i)&15, in>>(4*i+32)&15
					out[4+8*g+i] = byte(low | high<<4)
				}
			}
			out = out[quant.NVFP4.BlockBytes():]
		}
	}
	return nil
}

// withFactors makes matrices of NVFP4 that get another type absorb their factors, which are then left out.
func withFactors(f *gguf.File, choices []Choice) ([]Choice, error) {
	byName := map[string]*gguf.Tensor{}
	for _, c := range choices {
		byName[c.Tensor.Name] = c.Tensor
	}
	gone := map[string]bool{}
	for i := range choices {
		c := &choices[i]
		base, weight := strings.CutSuffix(c.Tensor.Name, ".weight")
		if c.Tensor.Type != quant.NVFP4 || c.Type == quant.NVFP4 || !weight {
			continue
		}
		gone[base+".input_scale"] = true
		side := byName[base+".scale"]
		if side == nil {
			continue
		}
		if n := matrices(c.Tensor.Shape); side.Type != quant.F32 || side.Elems() != n {
			return nil, fmt.Errorf("%s: tensor %q is %s of shape %v instead of %d numbers of F32: the file is damaged", f.Path, side.Name, side.Type, side.Shape, n)
		}
		gone[side.Name] = true
		c.factors = make([]float32, side.Elems())
		quant.Decode(quant.F32, c.factors, side.Data)
	}
	return slices.DeleteFunc(choices, func(c Choice) bool { return gone[c.Tensor.Name] }), nil
}
