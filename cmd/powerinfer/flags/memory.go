package flags

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
)

func RAM() cli.Flag {
	return &cli.StringFlag{Name: "ram-budget", Category: MemorySubject, Usage: "`GIB` of RAM that the model may take in all; of one that takes more, experts, or neurons of a prepared model, stay on the disk, and RAM keeps those that are used most; default: what is free, less a reserve where weights stay on the disk", Sources: Env("RAM_BUDGET")}
}

// ReadRAM reads the flag of RAM in bytes; nil if it is not given.
func ReadRAM(c *cli.Command) (*int64, error) {
	if !c.IsSet("ram-budget") {
		return nil, nil
	}
	bytes, err := ReadBudget(c.String("ram-budget"))
	if err != nil {
		return nil, fmt.Errorf("--ram-budget %w", err)
	}
	return &bytes, nil
}

func Batch() cli.Flag {
	return &cli.IntFlag{Name: "batch-size", Category: MemorySubject, Aliases: []string{"b"}, Value: engine.UsualBatch, Usage: "tokens of a prompt handed in at a time", Sources: Env("BATCH")}
}

func UBatch() cli.Flag {
	return &cli.IntFlag{Name: "ubatch-size", Category: MemorySubject, Aliases: []string{"ub"}, Value: model.UsualStep, Usage: "tokens computed at a time; by default as many as --batch-size where weights stay on the disk and memory allows", Sources: Env("UBATCH")}
}

func CacheKeys() cli.Flag {
	return &cli.StringFlag{Name: "cache-type-k", Category: MemorySubject, Aliases: []string{"ctk"}, Value: "f16", Usage: "keep keys in `TYPE`: f32, f16, bf16, q8_0 or q4_0", Sources: Env("CACHE_TYPE_K"), Action: nearestCache("cache-type-k")}
}

func CacheValues() cli.Flag {
	return &cli.StringFlag{Name: "cache-type-v", Category: MemorySubject, Aliases: []string{"ctv"}, Value: "f16", Usage: "keep values in `TYPE`, one of the same", Sources: Env("CACHE_TYPE_V"), Action: nearestCache("cache-type-v")}
}

// nearCaches maps llama.cpp's missing types of keys and values to the nearest available ones.
var nearCaches = map[string]string{"q5_0": "q8_0", "q5_1": "q8_0", "q4_1": "q4_0", "iq4_nl": "q4_0"}

// nearestCache makes the flag of that name choose the nearest available type.
func nearestCache(name string) func(context.Context, *cli.Command, string) error {
	return func(_ context.Context, c *cli.Command, value string) error {
		near, ok := nearCaches[strings.ToLower(value)]
		if !ok {
			return nil
		}
		fmt.Fprintf(screen.Err, "note: --%s: the KV cache is kept in %s, the nearest to %s\n", name, near, value)
		return c.Set(name, near)
	}
}

func WholeCache() cli.Flag {
	return &cli.BoolFlag{Name: "swa-full", Category: MemorySubject, Usage: "layers with sliding windows keep all keys and values, so that a text may go on anywhere behind its beginning", Sources: Env("SWA_FULL")}
}

// ReadCacheTypes reads the flags of CacheKeys and CacheValues.
func ReadCacheTypes(c *cli.Command) (types compute.CacheTypes, err error) {
	if types.Key, err = cacheType(c, "cache-type-k"); err != nil {
		return types, err
	}
	types.Value, err = cacheType(c, "cache-type-v")
	return types, err
}

func cacheType(c *cli.Command, name string) (compute.KVType, error) {
	t, err := compute.ParseKVType(c.String(name))
	if err != nil {
		return t, fmt.Errorf("--%s: %w", name, err)
	}
	return t, nil
}

func Kernels() cli.Flag {
	return &cli.StringFlag{Name: "kernels", Category: MemorySubject, Value: planner.KernelsAuto, Usage: "the processor's kernels for generation; all give the same text. auto measures which is the fastest while loading, usual takes the ordinary one, another `NAME` is one that -v shows; the name of an instruction set, as doctor shows it, keeps everything to that set"}
}
