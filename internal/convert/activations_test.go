package convert

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint/checkpointtest"
)

// saveActivations writes activation_N.pt for each layer given.
func saveActivations(t *testing.T, dtype string, layers ...[]float64) string {
	t.Helper()
	dir := t.TempDir()
	for l, v := range layers {
		checkpointtest.SaveTorch(t, filepath.Join(dir, fmt.Sprintf("activation_%d.pt", l)), true, checkpointtest.Tensor{DType: dtype, Shape: []int{len(v)}, Values: v})
	}
	return dir
}

// Layers are those of the files' numbers: after activation_1 comes activation_2, not activation_10.
func TestActivations(t *testing.T) {
	var layers [][]float64
	for l := range 12 {
		layers = append(layers, []float64{float64(l), 1000, 3, 7})
	}
	for _, dtype := range []string{"I64", "F32"} {
		s, err := ReadActivations(saveActivations(t, dtype, layers...), 12, 4)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Check(); err != nil || s.Tokens != 1000 {
			t.Errorf("%d tokens, %v", s.Tokens, err)
		}
		for l := range layers {
			if want := []uint32{uint32(l), 1000, 3, 7}; !slices.Equal(s.Layers[l], want) {
				t.Errorf("layer %d: %v, want %v", l, s.Layers[l], want)
			}
		}
		if o := s.Order(); !slices.Equal(o[5], []int32{1, 3, 0, 2}) {
			t.Errorf("order %v", o[5])
		}
	}
}

func TestActivationShares(t *testing.T) {
	s, err := ReadActivations(saveActivations(t, "F32", []float64{0.5, 1}, []float64{0, 0.25}), 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	if f := append(s.Frequencies(0), s.Frequencies(1)...); !slices.Equal(f, []float32{0.5, 1, 0, 0.25}) {
		t.Error(f)
	}
}

func TestHostileActivations(t *testing.T) {
	one := []float64{1, 2}
	cases := map[string]struct {
		dir        string
		layers, ff int
		want       string
	}{
		"missing":    {saveActivations(t, "I64", one), 2, 2, "activation_1.pt is missing"},
		"surplus":    {saveActivations(t, "I64", one, one), 1, 2, "activation_1.pt: the model has 1 layers, 0 to 0"},
		"width":      {saveActivations(t, "I64", one), 1, 3, "a tensor of shape [2] for a layer of 3 neurons"},
		"negative":   {saveActivations(t, "I64", []float64{-1, 2}), 1, 2, "neuron 0: -1 is no count"},
		"too large":  {saveActivations(t, "I64", []float64{1, 1 << 33}), 1, 2, "neuron 1: 8.589934592e+09 is no count"},
		"no number":  {saveActivations(t, "F32", []float64{1, math.NaN()}), 1, 2, "neuron 1: NaN is no count"},
		"never":      {saveActivations(t, "F32", []float64{0, 0}), 1, 2, "no neuron was ever active"},
		"other file": {saveActivations(t, "I64"), 1, 2, "activation_0.pt is missing"},
	}
	for name, c := range cases {
		_, err := ReadActivations(c.dir, c.layers, c.ff)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), c.dir) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "activation_0.pt"), []byte("no archive"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadActivations(dir, 1, 2); err == nil || !strings.Contains(err.Error(), "download it again") {
		t.Error(err)
	}
}
