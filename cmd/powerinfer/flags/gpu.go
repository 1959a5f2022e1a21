package flags

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
)

// GPU returns the flags that choose GPUs and what goes there.
func GPU() []cli.Flag {
	return About(GPUSubject, append(Tensors(), flagsOf(gpuRows(nil, &powerinfer.Options{}))...))
}

func gpuRows(c *cli.Command, o *powerinfer.Options) []row {
	return []row{
		{Device(), &o.GPU.Devices},
		{&cli.BoolFlag{Name: "list-devices", Usage: "list GPUs and exit"}, nil},
		{VRAM(), func(string) (err error) {
			o.GPU.VRAM, err = budgets(c)
			return err
		}},
		{Statistics(), &o.Statistics},
		{Stream(), func(name string) error {
			n := c.Int(name)
			if n < 0 {
				return fmt.Errorf("--%s %d: give a number of tokens, or 0 to send nothing", name, n)
			}
			if c.IsSet(name) {
				o.GPU.StreamTokens = &n
			}
			return nil
		}},
		{&cli.StringFlag{Name: "n-gpu-layers", Aliases: []string{"ngl", "gpu-layers"}, Usage: "put the last `N` layers whole on GPUs, or all, as llama.cpp does; default, or auto: attention and hot neurons first", Sources: Env("N_GPU_LAYERS")}, func(name string) (err error) {
			o.GPU.Layers, err = wholeLayers(c, name, "-ngl")
			return err
		}},
		{KVInRAM(), &o.GPU.KVInRAM},
		{&cli.IntFlag{Name: "moe-cache-mib", Usage: "let experts follow the text: those used most lie in at most `N` MiB of GPU memory, and RAM holds all of them, unless experts stay on the disk; 0: they stay where the plan put them; default: they follow where that should be faster and RAM has room"}, func(name string) error {
			n := c.Int(name)
			if n < 0 || n > MostBudget<<10 {
				return fmt.Errorf("--%s %d: give a number of MiB, or 0 for experts that stay where they are", name, n)
			}
			if c.IsSet(name) {
				most := int64(n) << 20
				o.GPU.MoECache = &most
			}
			return nil
		}},
		{&cli.BoolFlag{Name: "read-ahead", HideDefault: true, Usage: "while the processor waits for a GPU, read ahead the neurons that it will probably compute next; default: where the plan expects the GPU to wait for the processor"}, &o.GPU.ReadAhead},
	}
}

func Device() cli.Flag {
	return &cli.StringFlag{Name: "device", Aliases: []string{"dev"}, Usage: "GPUs: none, `NAMES` or numbers of --list-devices as in 0,1, or lavapipe; default: all GPUs, or the best of other devices", Sources: Env("DEVICE")}
}

func VRAM() cli.Flag {
	return &cli.StringSliceFlag{Name: "vram-budget", Usage: "`GIB` of a GPU's memory to use; default: what is free, less a reserve; one number for all GPUs or one for each: 8,11", Sources: Env("VRAM_BUDGET")}
}

func KVInRAM() cli.Flag {
	return &cli.BoolFlag{Name: "no-kv-offload", Aliases: []string{"nkvo"}, HideDefault: true, Usage: "keep the KV cache in RAM, where attention is computed; GPUs have neurons, experts and the head", Sources: Env("NO_KV_OFFLOAD")}
}

func Stream() cli.Flag {
	return &cli.IntFlag{Name: "stream-tokens", Usage: "in steps of at least `N` tokens of a prompt, send the weights in RAM to the GPU; 0: never; default: where that is faster than computing with them on the processor"}
}

// gpuOptions reads the flags of GPU into o.
func gpuOptions(c *cli.Command, o *powerinfer.Options) error {
	o.GPU.Tensors, o.Notice = tensorPlaces(c), screen.Note
	return read(c, gpuRows(c, o))
}

// wholeLayers reads a flag for the number of whole layers on GPUs; -1 is all. It returns nil if neurons are placed.
// short is the flag's name in errors.
func wholeLayers(c *cli.Command, name, short string) (*int, error) {
	text := c.String(name)
	n, err := strconv.Atoi(text)
	switch {
	case text == "" && !c.IsSet(name) || text == "auto":
		return nil, nil
	case text == "all":
		n = -1
	case err != nil || n < -1:
		return nil, fmt.Errorf("%s %s: give a number of layers, all, or auto", short, text)
	}
	return &n, nil
}

// MostBudget bounds --vram-budget and --ram-budget, in GiB.
const MostBudget = 1 << 20

// budgets reads --vram-budget: bytes, one number for all GPUs or one for each; nil if the flag is not given.
func budgets(c *cli.Command) ([]int64, error) {
	if !c.IsSet("vram-budget") {
		return nil, nil
	}
	var all []int64
	for _, part := range strings.Split(strings.Join(c.StringSlice("vram-budget"), ","), ",") {
		bytes, err := ReadBudget(part)
		if err != nil {
			return nil, fmt.Errorf("--vram-budget %w", err)
		}
		all = append(all, bytes)
	}
	return all, nil
}

// ReadBudget reads a number of GiB, and returns bytes.
func ReadBudget(text string) (int64, error) {
	text = strings.TrimSpace(text)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= MostBudget) {
		return 0, fmt.Errorf("%.40q is not a number of GiB", text)
	}
	return int64(v * (1 << 30)), nil
}

// Statistics returns the flag that names a file of statistics for a model without them.
func Statistics() cli.Flag {
	return &cli.StringFlag{Name: "stats", Usage: "sort neurons hottest first by the `FILE` that profile wrote, for a model that is not prepared; of experts it tells which uses to expect"}
}
