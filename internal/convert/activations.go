package convert

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
)

// shareTokens is the number of tokens that counts refer to if files hold shares instead of counts.
const shareTokens = 1 << 24

// ReadActivations reads the original project's activation counts, dir/activation_N.pt for each of the model's layers, N
// from 0: a tensor of ff counts each. The files lack the number of counted tokens. The largest count replaces it, which
// is exact if a neuron was always active. If no value is above 1 and some are fractions, they are taken for shares of
// tokens. Errors name the file.
func ReadActivations(dir string, layers, ff int) (*neuron.Stats, error) {
	if name := activationFile(dir, layers); checkpoint.Exists(name) {
		return nil, fmt.Errorf("%s: the model has %d layers, 0 to %d; these activations are another model's", name, layers, layers-1)
	}
	values := make([][]float64, layers)
	largest, broken := 0.0, false
	for l := range values {
		var err error
		if values[l], err = readCounts(activationFile(dir, l), ff); err != nil {
			return nil, err
		}
		for _, v := range values[l] {
			largest = max(largest, v)
			broken = broken || v != math.Trunc(v)
		}
	}
	scale := 1.0
	if broken && largest <= 1 {
		scale, largest = shareTokens, 1
	}
	if largest == 0 {
		return nil, fmt.Errorf("%s: no neuron was ever active", dir)
	}
	s := neuron.New(layers, ff)
	s.Tokens = uint64(math.Round(largest * scale))
	for l := range values {
		for i, v := range values[l] {
			s.Layers[l][i] = uint32(math.Round(v * scale))
		}
	}
	return s, nil
}

func activationFile(dir string, layer int) string {
	return filepath.Join(dir, fmt.Sprintf("activation_%d.pt", layer))
}

// readCounts reads one layer's file.
func readCounts(path string, ff int) ([]float64, error) {
	t, err := checkpoint.OpenTorch(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%s is missing; there must be one such file for each layer", path)
		}
		return nil, err
	}
	defer t.Close()
	x, err := t.Tensor()
	if err != nil {
		return nil, err
	}
	if !slices.Equal(x.Shape, []int{ff}) {
		return nil, fmt.Errorf("%s: a tensor of shape %v for a layer of %d neurons", path, x.Shape, ff)
	}
	out, err := x.Numbers()
	if err != nil {
		return nil, err
	}
	for i, v := range out {
		if !(v >= 0 && v <= math.MaxUint32) {
			return nil, fmt.Errorf("%s: offset %d: neuron %d: %g is no count", path, x.Offset, i, v)
		}
	}
	return out, nil
}
