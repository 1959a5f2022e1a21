package nn

import (
	"github.com/powerinfer-go/powerinfer/internal/bundle"
	"github.com/powerinfer-go/powerinfer/internal/compute"
)

// Plan says where a model goes and how it is computed: what the file, options and the GPUs' memory decide, and no
// family.
type Plan struct {
	Head    compute.Place // place of the tensors outside of layers
	Context int           // positions that a sequence may have; 0: as many as the model was trained for
	Layer   func(i int) LayerPlan
}

// LayerPlan says where a layer goes and how it is computed.
type LayerPlan struct {
	Place   compute.Place
	Stored  []int // the parts of the cache that the layer has, in the order of its calls of Binder.Store
	Neurons NeuronPlan
	Experts ExpertPlan
}

// NeuronPlan says how a layer's feed-forward layer is computed.
type NeuronPlan struct {
	ByNeuron   bool    // neurons that are zero are left out
	Cut        float32 // activations below it in magnitude are taken as zero; 0: none are
	Order      []int32 // the layer's neuron i is the file's Order[i]; nil: the file's i. [n_ff]
	Transposed bool    // the file holds down projections by neuron, as ffn_down_t
	Prepared   []int32 // which neuron of the model that adapters are for each of the file's is; nil: the same. [n_ff]
	Predictor  PredictorPlan
	Disk       bool         // neurons in RAM stay on disk if the file holds them as rows, and RAM caches the most used
	Bundle     *bundle.File // file with the rows of neurons on disk; nil: they are read from the model's file
	DiskGates  bool         // the matrix that says which neurons are active, gate or else up, also stays on disk
	Prior      []float64    // [n_ff] share of tokens expected to use each neuron on disk; nil: unknown
}

// PredictorPlan says how neurons are predicted.
type PredictorPlan struct {
	Held     bool // the file has predictors
	Used     bool // they are bound
	Rank     int  // rows of FC1; 0: the tensor's own
	AlwaysOn int  // the first neurons, without a prediction in the file
	More     int  // neurons after these that are also always computed, whatever the file predicts
	Normed   bool // see Predictor
}

// ExpertPlan says how a layer's experts are computed.
type ExpertPlan struct {
	Exact bool      // neurons that are zero are left out
	Used  bool      // the experts' predictors are bound
	Disk  bool      // units in RAM stay on disk, and RAM caches the most used
	Prior []float64 // see compute.Prior
	Skip  compute.Skip
}

// Parts are what a layer consists of; what it lacks is nil.
type Parts struct {
	Attention  *Attention
	Latent     *LatentAttention
	Compressed *CompressedAttention
	Recurrent  Recurrent
	FFN        *FFN // dense, or the shared experts
	FFNNorm    Norm // see FFNSpec
	Experts    *Experts
	Again      []*Attention      // Attention, each further time that tokens go through the layer
	Stored     []compute.KVShape // parts of the cache, in the order of calls of Binder.Store; their types are not set

	parallel bool // see FFNSpec
}

// Bins returns the counters of the layer's experts, or else of its neurons; nil: it has neither.
func (l *Parts) Bins() *compute.NeuronBins {
	switch {
	case l.Experts != nil:
		return &l.Experts.Bins
	case l.FFN != nil:
		return &l.FFN.Bins
	}
	return nil
}
