package prepared

import (
	"fmt"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// The keys, as docs/prepared-file.md lists them.
const (
	keyVersion             = "powerinfer.version"
	keyActivation          = "powerinfer.activation"
	keyActivationThreshold = "powerinfer.activation_threshold"
	keyThreshold           = "powerinfer.sparse_threshold"
	keyInput               = "powerinfer.predictor.input"
	keyRank                = "powerinfer.predictor.rank"
	keyAlwaysOn            = "powerinfer.predictor.always_on"
	keyMode                = "powerinfer.layer.mode"
	keyCalibration         = "powerinfer.calibration" // .sha256, .tokens
	keyHeldOut             = "powerinfer.held_out"    // .sha256, .tokens
	keyRecall              = "powerinfer.measured.recall"
	keyFound               = "powerinfer.measured.recall_count"
	keyPrecision           = "powerinfer.measured.precision"
	keyAccuracy            = "powerinfer.measured.accuracy"
	keyKLDivergence        = "powerinfer.measured.kl_divergence"
	keyPerplexityDense     = "powerinfer.measured.perplexity_dense"
	keyPerplexityPredict   = "powerinfer.measured.perplexity_predict"
)

func keyFrequency(layer int) string { return fmt.Sprintf("powerinfer.frequency.%d", layer) }
func keyOrder(layer int) string     { return fmt.Sprintf("powerinfer.order.%d", layer) }

// measuredKeys returns the arrays of a share per layer, in the order of Layer.measured.
func measuredKeys() [4]string { return [4]string{keyRecall, keyFound, keyPrecision, keyAccuracy} }

// Bounds on what a file may claim; beyond them it is taken for damaged.
const (
	maxLayers = 1 << 12
	maxWidth  = 1 << 20
	maxRank   = 1 << 16
)

// Keys returns i's metadata, to be written in addition to the model's own. Read returns i for them; an error names the
// key that Read would refuse.
func (i *Info) Keys() ([]gguf.KV, error) {
	if len(i.Layers) == 0 {
		return nil, fmt.Errorf("key %q: no layers", keyMode)
	}
	if err := i.check(len(i.Layers[0].Frequency)); err != nil {
		return nil, err
	}
	keys := []gguf.KV{
		{Key: keyVersion, Value: uint32(Version)},
		{Key: keyActivation, Value: i.Activation},
	}
	add := func(key string, value any) { keys = append(keys, gguf.KV{Key: key, Value: value}) }
	if i.Activation == "fatrelu" {
		add(keyActivationThreshold, i.ActivationThreshold)
	}
	add(keyThreshold, i.Threshold)
	add(keyInput, string(i.Input))
	add(keyCalibration+".sha256", i.Calibration.SHA256)
	add(keyCalibration+".tokens", i.Calibration.Tokens)
	var modes []string
	var ranks, always []uint32
	var measured [4][]float32
	for l := range i.Layers {
		y := &i.Layers[l]
		modes = append(modes, string(y.Mode))
		ranks = append(ranks, uint32(y.Rank))
		always = append(always, uint32(y.AlwaysOn))
		for k, v := range y.measured() {
			measured[k] = append(measured[k], *v)
		}
	}
	add(keyMode, modes)
	add(keyRank, ranks)
	add(keyAlwaysOn, always)
	if i.HeldOut != (Text{}) {
		add(keyHeldOut+".sha256", i.HeldOut.SHA256)
		add(keyHeldOut+".tokens", i.HeldOut.Tokens)
		for k, key := range measuredKeys() {
			add(key, measured[k])
		}
	}
	if q := i.Quality; q != nil {
		add(keyKLDivergence, q.KLDivergence)
		add(keyPerplexityDense, q.PerplexityDense)
		add(keyPerplexityPredict, q.PerplexityPredict)
	}
	for l := range i.Layers {
		add(keyFrequency(l), i.Layers[l].Frequency)
		if order := i.Layers[l].Order; order != nil {
			add(keyOrder(l), order)
		}
	}
	return keys, nil
}
