package convert

import (
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/quant"
)

// OutputFor returns the 16-bit type that loses the least of the checkpoint in folder dir, as llama.cpp's "auto" does.
// It is BF16 if more of the matrices' elements are BF16 or FP8, which exceed F16's range, than F16; otherwise it is
// F16. dir may be an adapter's.
func OutputFor(dir string) (Output, error) {
	open := checkpoint.Open
	if IsAdapter(dir) {
		open = checkpoint.OpenAdapter
	}
	c, err := open(dir)
	if err != nil {
		return Output{}, err
	}
	defer c.Close()
	elements := map[quant.Type]int64{}
	for _, t := range c.Tensors {
		if len(t.Shape) < 2 {
			continue
		}
		n := int64(1)
		for _, d := range t.Shape {
			n *= int64(d)
		}
		switch {
		case t.DType == "BF16" || strings.HasPrefix(t.DType, "F8"):
			elements[quant.BF16] += n
		case t.DType == "F16":
			elements[quant.F16] += n
		}
	}
	if elements[quant.BF16] > elements[quant.F16] {
		return OutputOf(quant.BF16), nil
	}
	return OutputOf(quant.F16), nil
}
