package flags

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
)

// Model returns the flags that choose a model and change its metadata.
func Model() []cli.Flag {
	return About(ModelSubject, slices.Concat([]cli.Flag{
		&cli.StringFlag{Name: "model", Aliases: []string{"m"}, Usage: "GGUF `FILE`, or a model by name; without it the embedded demo model", Sources: Env("MODEL")},
		&cli.StringSliceFlag{Name: "override-kv", Usage: "replace a metadata key: `KEY=TYPE:VALUE`, TYPE int, float, bool or str; ARCH stands for the file's architecture; may be repeated"},
	}, Hub()))
}

// ModelPath returns the file that -m names, empty for the embedded model.
func ModelPath(c *cli.Command) (string, error) {
	path := c.String("model")
	if path == "" && c.IsSet("model") { // probably an empty shell variable
		return "", errors.New("-m names no file; leave it out for the embedded model")
	}
	return path, nil
}

// IsDemo reports whether the embedded model is used. FetchModels must have run.
func IsDemo(c *cli.Command) bool { return c.String("model") == "" }

// Hub returns the flags that choose a model of the Hugging Face hub.
func Hub() []cli.Flag {
	return slices.Concat([]cli.Flag{
		&cli.StringFlag{Name: "hf-repo", Aliases: []string{"hf", "hfr"}, Usage: "model of the Hugging Face hub, downloaded unless it is cached: `USER/REPO[:QUANT]`, or a short name; QUANT is Q4_K_M, else Q8_0, else the first file", Sources: Env("HF_REPO")},
	}, Access())
}

// Access returns the flags that say which file is meant and how the hub is asked.
func Access() []cli.Flag {
	return About(ModelSubject, []cli.Flag{
		&cli.StringFlag{Name: "hf-file", Aliases: []string{"hff"}, Usage: "`NAME` of the file in that repository, instead of QUANT", Sources: Env("HF_FILE")},
		&cli.StringFlag{Name: "hf-token", Aliases: []string{"hft"}, Usage: "`TOKEN` for gated and private repositories; default: $HF_TOKEN, or that of the last login"},
		&cli.BoolFlag{Name: "offline", Usage: "take models from the cache only", Sources: Env("OFFLINE")},
	})
}

// ModelsDir returns the flag that names a folder of models in addition to the cache.
func ModelsDir() cli.Flag {
	return &cli.StringFlag{Name: "models-dir", Usage: "also the models in this `FOLDER`", Sources: Env("MODELS_DIR")}
}

// ReadModelsDirs returns the folders that ModelsDir names.
func ReadModelsDirs(c *cli.Command) []string {
	if dir := c.String("models-dir"); dir != "" {
		return []string{dir}
	}
	return nil
}

// Has reports whether a command has a flag.
func Has(c *cli.Command, name string) bool {
	return slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
}

// Adapters returns the flags that name LoRA adapters.
func Adapters() []cli.Flag {
	return About(ModelSubject, []cli.Flag{
		&cli.StringSliceFlag{Name: "lora", Usage: "LoRA adapter in the GGUF `FILE`, or several with commas; may be repeated", Sources: Env("LORA")},
		&cli.StringSliceFlag{Name: "lora-scaled", Usage: "LoRA adapter in a GGUF file, times a number: `FILE:SCALE`, or several with commas; may be repeated"},
	})
}

// ReadAdapters returns the adapters of --lora, and then those of --lora-scaled.
func ReadAdapters(c *cli.Command) ([]powerinfer.Adapter, error) {
	var list []powerinfer.Adapter
	for _, value := range c.StringSlice("lora") {
		for name := range strings.SplitSeq(value, ",") {
			list = append(list, powerinfer.Adapter{Path: name, Scale: 1})
		}
	}
	for _, value := range c.StringSlice("lora-scaled") {
		for one := range strings.SplitSeq(value, ",") {
			at := strings.LastIndexByte(one, ':')
			if at < 0 {
				return nil, fmt.Errorf("--lora-scaled %q is not FILE:SCALE", one)
			}
			scale, err := strconv.ParseFloat(one[at+1:], 32)
			if err != nil || math.IsNaN(scale) || math.IsInf(scale, 0) {
				return nil, fmt.Errorf("--lora-scaled %q is not FILE:SCALE with a number behind the last colon", one)
			}
			list = append(list, powerinfer.Adapter{Path: one[:at], Scale: float32(scale)})
		}
	}
	for _, a := range list {
		if a.Path == "" {
			return nil, fmt.Errorf("--lora names no file")
		}
	}
	return list, nil
}
