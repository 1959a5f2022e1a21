package synth

import (
	"errors"
	"fmt"
	"math"

	"github.com/powerinfer-go/powerinfer/internal/neuron"
)

// statsTokens are the tokens that Stats speaks of.
const statsTokens = 1 << 20

// Stats returns how often each neuron of the model that s describes is active, according to its law: nothing is
// counted. Neurons are in the file's order.
func Stats(s Spec) (*neuron.Stats, error) {
	s, err := s.complete()
	if err == nil && s.Sparsity == 0 {
		err = errors.New("without a sparsity no neuron is hotter than another")
	}
	if err != nil {
		return nil, fmt.Errorf("synthetic model: %w", err)
	}
	m := newModel(s)
	all := &neuron.Stats{Tokens: statsTokens}
	for l := range s.Layers {
		n := m.neurons(l)
		counts := make([]uint32, s.FF)
		for i := range counts {
			counts[i] = uint32(math.Round(m.law.freq[n.of(i)/2] * statsTokens))
		}
		all.Layers = append(all.Layers, counts)
	}
	return all, all.Check()
}
