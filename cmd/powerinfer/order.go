package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/convert"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/neuron"
)

// statsFlag names statistics of a model that holds none.
func statsFlag() cli.Flag {
	return &cli.StringFlag{Name: "stats", Usage: "sort neurons hottest first by the `FILE` that profile wrote, for a model that is not prepared"}
}

// statsFor are f's statistics from --stats or, for an original PowerInfer file, from the folder activation beside it. nil: there are
// none, or the file is prepared and holds its own.
func statsFor(c *cli.Command, f *gguf.File) (*neuron.Stats, error) {
	config, err := model.ReadConfig(f, c.String("activation"))
	if err != nil {
		return nil, err
	}
	name := c.String("stats")
	if config.Prepared != nil {
		if name != "" {
			return nil, fmt.Errorf("--stats %s: %s is prepared and holds its own statistics; leave the flag out", name, f.Path)
		}
		return nil, nil
	}
	folder := filepath.Join(filepath.Dir(f.Path), "activation")
	var s *neuron.Stats
	switch {
	case name != "":
		s, err = countedStats(name)
	case config.Predictors && isFolder(folder):
		name = folder
		s, err = convert.ReadActivations(folder, config.Layers, config.FF)
	}
	if err != nil || s == nil {
		return nil, err
	}
	if len(s.Layers) != config.Layers || len(s.Layers[0]) != config.FF {
		return nil, fmt.Errorf("%s counts %d layers of %d neurons; the model has %d of %d", name, len(s.Layers), len(s.Layers[0]), config.Layers, config.FF)
	}
	return s, nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
