package session

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"github.com/powerinfer-go/powerinfer/internal/convert"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/prepared"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// statistics is the setting that names a file of profile.
const statistics setting.Setting = "--stats|Options.Statistics"

// Statistics returns how often each neuron of the model in f is active, from the file of profile or, for an original
// PowerInfer file, from the folder activation next to it. It returns nil if there are no statistics, or if the model is
// prepared and holds its own. Statistics of experts become part of f, in memory, for model.Config.Prior.
func Statistics(f *gguf.File, file, activation string) (*neuron.Stats, error) {
	config, err := model.ReadConfig(f, activation)
	if err != nil {
		return nil, err
	}
	if config.Prepared != nil {
		if file != "" {
			return nil, setting.Errorf("%s: %s is prepared and holds its own statistics; leave %s out", statistics.To(file), f.Path, statistics)
		}
		return nil, nil
	}
	folder := filepath.Join(filepath.Dir(f.Path), "activation")
	from := file
	var s *neuron.Stats
	switch {
	case file != "":
		s, err = TakeStatistics(f, file, activation)
	case config.Predictors && isFolder(folder):
		from = folder + ", which lies beside the model,"
		s, err = convert.ReadActivations(folder, config.Layers, config.FF)
	}
	if err != nil || s == nil {
		return nil, err
	}
	if len(s.Layers) != config.Layers || len(s.Layers[0]) != config.FF {
		return nil, fmt.Errorf("%s counts %d layers of %d neurons; the model has %d of %d", from, len(s.Layers), len(s.Layers[0]), config.Layers, config.FF)
	}
	return s, nil
}

// takeUses has f say what the file of statistics says of the uses of its experts. Once it does, the same file changes
// nothing.
func takeUses(f *gguf.File, c *model.Config, file, activation string) error {
	s, err := gguf.Open(file)
	if err != nil {
		return err
	}
	defer s.Close()
	x, hash, err := prepared.ReadExperts(s)
	switch {
	case err != nil:
		return err
	case x == nil:
		return fmt.Errorf("%s holds no statistics of experts; powerinfer profile counts them", file)
	case c.ExpertUse != nil && reflect.DeepEqual(c.ExpertUse, x):
		return nil
	case c.ExpertUse != nil:
		return setting.Errorf("%s: %s is prepared and holds its own statistics; leave %s out", statistics.To(file), f.Path, statistics)
	}
	keys, err := prepared.ExpertKeys(x, hash)
	if err != nil {
		return err
	}
	for _, kv := range append(keys, prepared.CurveKeys(s)...) {
		f.Set(kv.Key, kv.Value)
	}
	if _, err := model.ReadConfig(f, activation); err != nil {
		return setting.Errorf("%s is of another model: %w", statistics.To(file), err)
	}
	return nil
}

// TakeStatistics reads what profile wrote to file: it returns how often neurons are active, and what the file says of
// experts becomes part of f.
func TakeStatistics(f *gguf.File, file, activation string) (*neuron.Stats, error) {
	c, err := model.ReadConfig(f, activation)
	if err != nil {
		return nil, err
	}
	if c.Experts.Count > 0 {
		return nil, takeUses(f, &c, file, activation)
	}
	of, err := gguf.Open(file)
	if err != nil {
		return nil, err
	}
	defer of.Close()
	s, ok, err := prepared.ReadStats(of)
	if err == nil && !ok {
		err = fmt.Errorf("%s holds no statistics of neurons; powerinfer profile counts them", file)
	}
	return s, err
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
