package session

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/powerinfer-go/powerinfer/internal/convert"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
	"github.com/powerinfer-go/powerinfer/internal/prepare"
)

// Statistics returns how often each neuron of the model in f is active, from the file that profile wrote or, for an original PowerInfer
// file, from the folder activation beside it. It returns nil where there are none, or where the model is prepared and holds its own.
func Statistics(f *gguf.File, file, activation string) (*neuron.Stats, error) {
	config, err := model.ReadConfig(f, activation)
	if err != nil {
		return nil, err
	}
	if config.Prepared != nil {
		if file != "" {
			return nil, fmt.Errorf("--stats %s: %s is prepared and holds its own statistics; leave the flag out", file, f.Path)
		}
		return nil, nil
	}
	folder := filepath.Join(filepath.Dir(f.Path), "activation")
	from := file
	var s *neuron.Stats
	switch {
	case file != "":
		s, err = ReadStatistics(file)
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

// ReadStatistics reads what profile wrote.
func ReadStatistics(path string) (*neuron.Stats, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, ok, err := prepare.StatsOf(f)
	if err == nil && !ok {
		err = fmt.Errorf("%s holds no statistics of neurons; powerinfer profile counts them", path)
	}
	return s, err
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
