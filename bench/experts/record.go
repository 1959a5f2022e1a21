package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/compute/cpu"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/modelcost"
)

// A text is read in windows of recordWindow tokens, in steps of recordStep.
const (
	recordWindow = 512
	recordStep   = 64
)

// planContext is the context, in tokens, for which a file's shape counts keys and values, as described models do.
const planContext = 8192

// recorder is a model.ExpertObserver that keeps what tokens use.
type recorder struct {
	trace  trace
	layers []int // [blocks] number among those with experts
}

func (r *recorder) FeedForward(int, model.FFNStep) {}

func (r *recorder) Experts(layer int, s model.ExpertStep) {
	l := r.layers[layer]
	n := len(s.Chosen) / s.Used
	if l == 0 {
		for range n {
			r.trace = append(r.trace, make([]use, 0, len(r.layers)))
		}
	}
	for i, y := range r.trace[len(r.trace)-n:] {
		r.trace[len(r.trace)-n+i] = append(y, append(use(nil), s.Chosen[i*s.Used:][:s.Used]...))
	}
}

// record makes a model read at most this many tokens of a text, and returns which experts they used.
func record(ctx context.Context, f *gguf.File, text string, most int) (trace, error) {
	c, err := model.ReadConfig(f, "")
	if err != nil {
		return nil, err
	}
	r := &recorder{layers: make([]int, len(c.Blocks))}
	n := 0
	for l, b := range c.Blocks {
		if r.layers[l] = n; b.Experts {
			n++
		}
	}
	if n == 0 {
		return nil, fmt.Errorf("%s has no experts", f.Path)
	}
	tok, err := model.Tokenizer(f)
	if err != nil {
		return nil, err
	}
	tokens := tok.Encode(text, true, false)
	tokens = tokens[:min(len(tokens), most)]
	dev, err := cpu.New(cpu.Options{Threads: runtime.GOMAXPROCS(0)})
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	const pages = recordWindow / compute.PagePositions
	m, err := model.Load(ctx, f, dev, model.Options{Observer: r, Batch: recordStep, Outputs: 1, Cache: compute.CacheSpec{Pages: pages}, Neurons: model.Neurons{Sparse: model.Off}})
	if err != nil {
		return nil, err
	}
	var all []int32
	for i := range pages {
		all = append(all, int32(i))
	}
	for at := 0; at < len(tokens); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		pos := at % recordWindow
		n := min(recordStep, len(tokens)-at)
		p := compute.Params{Tokens: tokens[at:][:n], Pages: [][]int32{all}, Out: []int32{int32(n - 1)}}
		for i := range n {
			p.Seq, p.Pos = append(p.Seq, 0), append(p.Pos, int32(pos+i))
		}
		if err := m.Forward(&p); err != nil {
			return nil, err
		}
		at += n
	}
	return r.trace, nil
}

// write writes a trace as read reads it.
func (t trace) write(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := json.NewEncoder(f)
	for _, token := range t {
		if err := out.Encode(token); err != nil {
			return err
		}
	}
	return nil
}

// shapeOf describes a file's model. Weights that do not belong to experts are divided evenly among the layers with
// experts.
func shapeOf(f *gguf.File) (s shape, err error) {
	b, err := modelcost.Of(f, modelcost.Options{Context: planContext, Neurons: model.Neurons{Sparse: model.Off}, Law: modelcost.UsualLaw()})
	if err != nil {
		return s, err
	}
	s = shape{Name: b.Name, Used: b.ExpertsUsed, Head: b.Model.Head}
	for _, y := range b.Model.Layers {
		s.Dense += y.Attention + y.KV
		if !y.Experts {
			s.Dense += y.Units.Size * int64(len(y.Units.Sometimes))
			continue
		}
		s.Layers++
		s.Experts = len(y.Units.Sometimes)
		s.Expert += y.Units.Size
	}
	if s.Layers == 0 {
		return s, fmt.Errorf("%s has no experts", f.Path)
	}
	s.Expert, s.Dense = s.Expert/int64(s.Layers), s.Dense/int64(s.Layers)
	return s, nil
}

// parseHabits reads habits of a synthetic text, as in zipf=1,drift=0.5,topic=200,sticky=1.
func parseHabits(text string) (h habits, err error) {
	h.Name = text
	for item := range strings.SplitSeq(text, ",") {
		key, number, _ := strings.Cut(item, "=")
		v, err := strconv.ParseFloat(number, 64)
		if err != nil || !(v >= 0 && v <= 1e6) {
			return h, fmt.Errorf("--habits %q: %q is not KEY=NUMBER", text, item)
		}
		switch key {
		case "zipf":
			h.Zipf = v
		case "drift":
			h.Drift = v
		case "topic":
			h.Topic = int(v)
		case "sticky":
			h.Sticky = v
		default:
			return h, fmt.Errorf("--habits %q: there are zipf, drift, topic and sticky, and no %q", text, key)
		}
	}
	if h.Drift > 1 {
		return h, fmt.Errorf("--habits %q: drift is a share, from 0 to 1", text)
	}
	return h, nil
}
