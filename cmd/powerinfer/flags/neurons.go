package flags

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/internal/model"
)

func Sparse() cli.Flag {
	return &cli.StringFlag{Name: "sparse", Category: NeuronSubject, Value: "auto", Usage: "neurons of feed-forward layers to compute: `MODE` auto, off (all), exact (those not zero), predict (those predicted) or threshold (those not nearly zero)", Sources: Env("SPARSE")}
}

// Prediction returns the flags that say how predictors are used, and which experts may be left out.
func Prediction() []cli.Flag {
	return About(NeuronSubject, []cli.Flag{
		&cli.Float32Flag{Name: "sparse-threshold", Usage: "logit from which a predicted neuron is computed; default: the file's", Sources: cli.NewValueSourceChain(Variable("LLAMA_SPARSE_PRED_THRESHOLD"))},
		&cli.Float64Flag{Name: "sparse-always-on", HideDefault: true, Usage: "`SHARE` of each layer's neurons, the hottest, that --sparse predict computes for every token; default and minimum: the file's"},
		LeaveOut(),
	})
}

// LeaveOut returns --leave-out, one of the flags of Prediction.
func LeaveOut() cli.Flag {
	return aboutNeurons(&cli.StringFlag{Name: "leave-out", Usage: "`K:SHARE` of experts that may be left out instead of being read from disk, instead of what --max-kld chooses: those after the K highest ranked of a token with less than SHARE of its weights, such as 4:0.05"})
}

// Bound returns the flags that limit the loss by leaving out neurons.
func Bound() []cli.Flag { return []cli.Flag{MaxKLD(), LeastSameTop()} }

// MaxKLD returns --max-kld, one of the flags of Bound.
func MaxKLD() cli.Flag {
	return aboutNeurons(&cli.Float64Flag{Name: "max-kld", Usage: fmt.Sprintf("leave out as many neurons, or experts that would be read from disk, as the measured settings allow: the fastest setting with which 19 of 20 documents stay within this KL divergence from computing all neurons, in nats a token; with --sparse threshold the default is %g", model.UsualMaxKLD), Sources: Env("MAX_KLD")})
}

// LeastSameTop returns --min-same-top, one of the flags of Bound.
func LeastSameTop() cli.Flag {
	return aboutNeurons(&cli.Float64Flag{Name: "min-same-top", Usage: "the same by another measure: the least share of a document's tokens whose likeliest successor stays the same, such as 0.97", Sources: Env("MIN_SAME_TOP")})
}

func aboutNeurons(f cli.Flag) cli.Flag { return About(NeuronSubject, []cli.Flag{f})[0] }

// ReadLeaveOut reads --leave-out, which excludes the flags of Bound.
func ReadLeaveOut(c *cli.Command, bound model.Bound) (o powerinfer.Skip, err error) {
	v := c.String("leave-out")
	switch {
	case v == "":
		return o, nil
	case bound.IsSet():
		return o, errors.New("--leave-out sets what --max-kld and --min-same-top choose; give one or the other")
	}
	after, below, ok := strings.Cut(v, ":")
	if ok {
		o.After, err = strconv.Atoi(after)
	}
	if ok && err == nil {
		var share float64
		share, err = strconv.ParseFloat(below, 32)
		o.Below = float32(share)
	}
	if !ok || err != nil || o.After < 1 || !(o.Below > 0 && o.Below <= 1) {
		return o, fmt.Errorf("--leave-out %q: give how many experts of a token stay, 1 or more, and a share of its weights up to 1, such as 4:0.05", v)
	}
	return o, nil
}

// ReadBound reads the flags of Bound.
func ReadBound(c *cli.Command) (b model.Bound, err error) {
	if c.IsSet("max-kld") {
		if b.KLD, err = ReadMaxKLD(c); err != nil {
			return b, err
		}
	}
	if c.IsSet("min-same-top") {
		b.SameTop = c.Float64("min-same-top")
		if !(b.SameTop > 0 && b.SameTop <= 1) {
			return b, fmt.Errorf("--min-same-top %g is not a share above 0 and up to 1, such as 0.97", b.SameTop)
		}
	}
	return b, nil
}

// ReadMaxKLD reads a flag of that name.
func ReadMaxKLD(c *cli.Command) (float64, error) {
	v := c.Float64("max-kld")
	if !(v > 0) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("--max-kld %g is no bound; give a number above 0, such as %g", v, model.UsualMaxKLD)
	}
	return v, nil
}

func ReadSparse(c *cli.Command) (model.SparseMode, error) {
	name := c.String("sparse")
	if name == "" { // a command without the flag chooses the mode
		return model.Auto, nil
	}
	m, err := model.ParseSparseMode(name)
	if err != nil {
		return m, fmt.Errorf("--sparse: %w", err)
	}
	return m, nil
}

// Experts returns the flag that overrides how many experts a token uses.
func Experts() cli.Flag {
	return &cli.IntFlag{Name: "experts-used", Category: NeuronSubject, HideDefault: true, Usage: "use `N` experts for each token; default: as many as the file says. perplexity --kl-divergence measures what fewer cost"}
}
