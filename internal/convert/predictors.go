package convert

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/powerinfer-go/powerinfer/internal/convert/checkpoint"
)

// predictorSource returns the name of a layer's predictor tensor, which none of a checkpoint's own tensors has.
func predictorSource(layer int, name string) string {
	return fmt.Sprintf("predictor %d %s", layer, name)
}

// openPredictors adds to source the predictors of folder dir: model_N.pt with fc1.weight [rank, hidden] and fc2.weight
// [ff, rank] for each layer N, as the original project publishes them. Layers are taken by number.
func openPredictors(source *checkpoint.Checkpoint, dir string, c *config) error {
	if name := predictorFile(dir, c.Layers); checkpoint.Exists(name) {
		return fmt.Errorf("%s: the model has %d layers, 0 to %d; these predictors are another model's", name, c.Layers, c.Layers-1)
	}
	for l := range c.Layers {
		path := predictorFile(dir, l)
		t, err := checkpoint.OpenTorch(path)
		if err != nil {
			if errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("%s is missing; there must be one such file for each of %d layers", path, c.Layers)
			}
			return err
		}
		fc1, fc2, err := predictorOf(t, path, c)
		if err != nil {
			t.Close()
			return err
		}
		source.Attach(t, map[string]*checkpoint.Tensor{predictorSource(l, "fc1"): fc1, predictorSource(l, "fc2"): fc2})
	}
	return nil
}

// predictorOf returns the two matrices of a layer's predictor, [rank, hidden] and [ff, rank].
func predictorOf(t *checkpoint.Torch, path string, c *config) (fc1, fc2 *checkpoint.Tensor, err error) {
	tensors, err := t.StateDict()
	if err != nil {
		return nil, nil, err
	}
	fc1, fc2 = tensors["fc1.weight"], tensors["fc2.weight"]
	if fc1 == nil || fc2 == nil || len(tensors) != 2 {
		return nil, nil, fmt.Errorf("%s: it holds %d tensors, not fc1.weight and fc2.weight alone", path, len(tensors))
	}
	if len(fc1.Shape) != 2 || fc1.Shape[1] != c.Hidden || len(fc2.Shape) != 2 || fc2.Shape[0] != c.FF || fc2.Shape[1] != fc1.Shape[0] {
		return nil, nil, fmt.Errorf("%s: fc1.weight %v and fc2.weight %v are no predictor of %d neurons from %d inputs, [rank %d] and [%d rank]",
			path, fc1.Shape, fc2.Shape, c.FF, c.Hidden, c.Hidden, c.FF)
	}
	return fc1, fc2, nil
}

func predictorFile(dir string, layer int) string {
	return filepath.Join(dir, fmt.Sprintf("model_%d.pt", layer))
}

// planPredictors lists the tensors that openPredictors has found.
func planPredictors(p *plan, c *config) {
	for l := range c.Layers {
		fc1, fc2 := predictorSource(l, "fc1"), predictorSource(l, "fc2")
		if p.err != nil {
			return
		}
		rank := p.source.Tensors[fc1].Shape[0]
		p.add(fmt.Sprintf("blk.%d.fc1.weight", l), fc1, rank, c.Hidden)
		p.add(fmt.Sprintf("blk.%d.fc2.weight", l), fc2, c.FF, rank)
	}
}

// predictorThreshold is sparse_threshold of the folder's config.json; ok is false if there is none.
func predictorThreshold(dir string) (threshold float32, ok bool, err error) {
	path := filepath.Join(dir, "config.json")
	if !checkpoint.Exists(path) {
		return 0, false, nil
	}
	var c struct {
		Threshold *float64 `json:"sparse_threshold"`
	}
	if err := checkpoint.ReadJSON(path, &c); err != nil || c.Threshold == nil {
		return 0, false, err
	}
	if math.Abs(*c.Threshold) > math.MaxFloat32 {
		return 0, false, fmt.Errorf("%s: key %q: %g is not a threshold", path, "sparse_threshold", *c.Threshold)
	}
	return float32(*c.Threshold), true, nil
}
