package flags

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
)

// A ropeFlag sets a key of the file's rotary embedding.
type ropeFlag struct {
	name, usage, variable string
	key                   string               // name after ARCH.rope.
	value                 func(float64) string // value of the key; nil: the number itself
	least, most           float64              // accepted range
}

// ropeFlagTable returns llama.cpp's numbers of rotary embeddings.
func ropeFlagTable() []ropeFlag {
	const large = 1 << 30
	inverse := func(v float64) string { return fmt.Sprintf("float:%g", 1/v) }
	whole := func(v float64) string { return fmt.Sprintf("int:%.0f", v) }
	return []ropeFlag{
		{"rope-scale", "extend the context `N` times: positions are divided by N, with yarn only those of slowly rotating pairs", "ROPE_SCALE", "scaling.factor", nil, 1e-6, large},
		{"rope-freq-base", "base of the frequencies (θ), which NTK-aware scaling raises; default: the file's", "ROPE_FREQ_BASE", "freq_base", nil, 1, 1e30},
		{"rope-freq-scale", "the inverse of --rope-scale", "ROPE_FREQ_SCALE", "scaling.factor", inverse, 1e-9, 1e6},
		{"yarn-orig-ctx", "tokens of context before it was extended; default: the file's", "YARN_ORIG_CTX", "scaling.original_context_length", whole, 1, large},
		{"yarn-ext-factor", "share of YaRN's extrapolation, 0: all pairs are interpolated", "YARN_EXT_FACTOR", "scaling.yarn_ext_factor", nil, 0, 1},
		{"yarn-attn-factor", "factor of rotated pairs' magnitude, beside YaRN's own", "YARN_ATTN_FACTOR", "scaling.attn_factor", nil, 0, 1e6},
		{"yarn-beta-slow", "rotations within the original context below which a pair is interpolated", "YARN_BETA_SLOW", "scaling.yarn_beta_slow", nil, 1e-3, 1e6},
		{"yarn-beta-fast", "rotations above which a pair is left alone", "YARN_BETA_FAST", "scaling.yarn_beta_fast", nil, 1e-3, 1e6},
	}
}

// ropeScalings are the values of --rope-scaling: llama.cpp's, and dynamic.
func ropeScalings() []string { return []string{"none", "linear", "yarn", "dynamic"} }

// Rope returns the flags that override the file's description of rotary embeddings.
func Rope() []cli.Flag {
	flags := []cli.Flag{&cli.StringFlag{
		Name: "rope-scaling", Usage: "how a context beyond the trained one is reached: `METHOD` none, linear, yarn or dynamic (NTK by the length of -c); default: the file's", Sources: Env("ROPE_SCALING_TYPE"),
	}}
	for _, f := range ropeFlagTable() {
		flags = append(flags, &cli.FloatFlag{Name: f.name, Usage: f.usage, Sources: Env(f.variable), HideDefault: true})
	}
	return About(ContextSubject, flags)
}

// ReadOverrides returns the flags' changes of the file's metadata: --override-kv first, so that flags win.
func ReadOverrides(c *cli.Command) ([]string, error) {
	list := slices.Clone(c.StringSlice("override-kv"))
	if method := c.String("rope-scaling"); method != "" {
		if !slices.Contains(ropeScalings(), method) {
			return nil, fmt.Errorf("--rope-scaling %q is none of none, linear, yarn and dynamic", method)
		}
		list = append(list, "ARCH.rope.scaling.type=str:"+method)
	}
	if c.IsSet("rope-scale") && c.IsSet("rope-freq-scale") {
		return nil, fmt.Errorf("--rope-scale and --rope-freq-scale say the same; give one")
	}
	for _, f := range ropeFlagTable() {
		if !c.IsSet(f.name) {
			continue
		}
		v := c.Float(f.name)
		if v == -1 && f.least <= 0 || v == 0 && (f.name == "rope-freq-base" || f.name == "yarn-orig-ctx") { // llama.cpp's values for the file's own
			continue
		}
		if !(v >= f.least && v <= f.most) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("--%s %g is not a number from %g to %g", f.name, v, f.least, f.most)
		}
		value := "float:" + strconv.FormatFloat(v, 'g', -1, 64)
		if f.value != nil {
			value = f.value(v)
		}
		list = append(list, "ARCH.rope."+f.key+"="+value)
	}
	if c.IsSet("experts-used") {
		n := c.Int("experts-used")
		if n < 1 || n > 1<<20 {
			return nil, fmt.Errorf("--experts-used %d is not a number of experts", n)
		}
		list = append(list, fmt.Sprintf("ARCH.expert_used_count=int:%d", n))
	}
	return list, nil
}

// Extension returns the flags of commands whose texts may be extended: see powerinfer.Extension.
func Extension() []cli.Flag {
	return About(ContextSubject, []cli.Flag{
		&cli.IntFlag{Name: "grp-attn-n", Aliases: []string{"gan"}, Value: 1, Usage: "self-extension: have each `N` tokens of a long text share a position, so that it may be N times as long as those that the model was trained on; with -c", Sources: Env("GRP_ATTN_N")},
		&cli.IntFlag{Name: "grp-attn-w", Aliases: []string{"gaw"}, Value: 512, Usage: "at most `N` tokens at a text's end have positions of their own; a multiple of --grp-attn-n", Sources: Env("GRP_ATTN_W")},
	})
}

// ReadExtension reads the flags of Extension, if c has them.
func ReadExtension(c *cli.Command) (powerinfer.Extension, error) {
	n, w := c.Int("grp-attn-n"), c.Int("grp-attn-w")
	switch {
	case n == 1 || n == 0 && w == 0:
		return powerinfer.Extension{}, nil
	case n < 1 || n > math.MaxInt32:
		return powerinfer.Extension{}, fmt.Errorf("--grp-attn-n %d is not a number of tokens that share a position", n)
	case w < 1 || w > math.MaxInt32 || w%n != 0:
		return powerinfer.Extension{}, fmt.Errorf("--grp-attn-w %d is not a multiple of --grp-attn-n %d", w, n)
	case c.String("prompt-cache") != "":
		return powerinfer.Extension{}, errors.New("--prompt-cache keeps nothing of texts that --grp-attn-n extends, whose keys change as they grow: leave one of them out")
	}
	return powerinfer.Extension{Group: n, Width: w}, nil
}

// Shift returns the flags of commands that can continue a text when the context is full.
func Shift() []cli.Flag {
	return About(ContextSubject, []cli.Flag{
		&cli.BoolFlag{Name: "context-shift", Usage: "when the context is full, drop the oldest tokens and go on", Sources: Env("CONTEXT_SHIFT")},
		&cli.IntFlag{Name: "keep", Usage: "with --context-shift, keep `N` tokens at the beginning of the prompt; -1: all of the prompt"},
	})
}

// ReadKeep returns --keep as a number of tokens.
func ReadKeep(c *cli.Command) (int, error) {
	n := c.Int("keep")
	switch {
	case n == -1:
		return math.MaxInt32, nil
	case n < 0 || n > math.MaxInt32:
		return 0, fmt.Errorf("--keep %d is not a number of tokens, or -1 for the whole prompt", n)
	}
	return n, nil
}
