// Package neurons serves a model's neurons live: where they are stored, which were needed, what was read and how long
// it took. It also serves the predictors' threshold, and the effect of changing it. These routes are our own; the page
// shows them.
package neurons

import (
	"net/http"
	"sync/atomic"

	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// mostWatchers bounds the streams of events: each keeps a connection for as long as its client likes.
const mostWatchers = 64

// Register adds the routes to s.
func Register(s *server.Server) {
	api := s.API(server.CommonForm)
	api.Get("/neurons", func(w http.ResponseWriter, r *http.Request) error {
		m, release, err := s.Models.Peek(r.URL.Query().Get("model"))
		if err != nil {
			return err
		}
		defer release()
		server.WriteJSON(w, describe(m))
		return nil
	})
	var watchers atomic.Int32
	api.Get("/neurons/events", func(w http.ResponseWriter, r *http.Request) error {
		defer watchers.Add(-1)
		if watchers.Add(1) > mostWatchers {
			return server.Unavailable("%d clients watch already; try again later", mostWatchers)
		}
		return watch(s, w, r)
	})
	api.Ask("/neurons/threshold", setThreshold)
	api.Ask("/neurons/compare", compare)
}

// A layer says where a layer's parts are stored.
type layer struct {
	Neurons   int    `json:"neurons"`
	Mode      string `json:"mode"`
	Dense     int64  `json:"dense_bytes"` // bytes of its feed-forward weights
	GPU       int    `json:"gpu"`         // the GPU that holds a part of it; -1: none
	Hot       int    `json:"hot"`         // neurons on the GPU, or experts
	Experts   int    `json:"experts,omitempty"`
	Attention bool   `json:"attention_on_gpu"`
	Predictor bool   `json:"predictor_on_gpu"`

	Expected *expected `json:"expected,omitempty"` // where the plan knows
}

// expected is a layer's part of a token's time as planned, in milliseconds: what both processors compute one after the
// other, what they compute at the same time, hand-offs between them, and altogether.
type expected struct {
	Dense float64 `json:"dense_ms"`
	Hot   float64 `json:"hot_ms"`
	Cold  float64 `json:"cold_ms"`
	Wait  float64 `json:"wait_ms"`
	MS    float64 `json:"ms"`
}

// A description is what does not change from step to step.
type description struct {
	Model      string         `json:"model"`
	Device     string         `json:"device"`
	Mode       string         `json:"mode"`
	Activation string         `json:"activation"`
	Threshold  float32        `json:"threshold"`  // threshold of the predictors' logits
	Adjustable bool           `json:"adjustable"` // it can be changed
	Layers     []layer        `json:"layers"`
	Plan       *plan          `json:"plan"` // nil: no GPU takes part
	Disk       *server.OnDisk `json:"disk"` // nil: nothing stays on disk
}

// A plan is what was planned when the model was loaded.
type plan struct {
	GPUs  []planned `json:"gpus"`
	Bytes int64     `json:"bytes"`             // bytes of weights and cache on them
	Rate  float64   `json:"tokens_per_second"` // expected; 0: not known
}

type planned struct {
	Device string `json:"device"`
	Budget int64  `json:"budget"`  // bytes of its memory that may be in use
	Bytes  int64  `json:"planned"` // bytes that are expected to be
}

func describe(m *server.Model) description {
	e := m.Engine
	c := e.Config()
	d := description{
		Model: m.Name, Device: e.Device(), Mode: c.Sparse.String(), Activation: c.Act.Kind.String(),
		Threshold: e.Threshold(), Adjustable: c.Sparse == model.Predict, Disk: m.OnDisk(),
	}
	for l, use := range e.Neurons() {
		at := e.Placed(l)
		y := layer{Neurons: use.Neurons, Experts: use.Experts, Mode: use.Mode.String(), Dense: use.Dense, GPU: -1, Attention: at.Attention, Predictor: at.Predictor}
		if at.Tier >= 0 {
			y.GPU, y.Hot = int(at.Tier), at.Bound
		}
		if p := m.Plan; p != nil && l < len(p.Priced) {
			const ms = 1e3
			c := &p.Priced[l]
			y.Expected = &expected{ms * c.Dense, ms * c.HotTime, ms * c.ColdTime, ms * c.Wait, ms * c.Seconds}
		}
		d.Layers = append(d.Layers, y)
	}
	if p := m.Plan; p != nil {
		d.Plan = &plan{Bytes: p.Bytes, Rate: p.Rate}
		for _, g := range p.GPUs {
			d.Plan.GPUs = append(d.Plan.GPUs, planned{g.Device, g.Budget, g.Planned})
		}
	}
	return d
}

// largestThreshold is beyond all logits, which are sums of products of numbers near 1.
const largestThreshold = 1e6

func setThreshold(w http.ResponseWriter, _ *http.Request, f *server.Fields, m *server.Model) error {
	var t float32
	if !f.Read("threshold", &t) {
		f.Fail(server.Invalid("the field threshold is missing"))
	}
	if !(t >= -largestThreshold && t <= largestThreshold) {
		f.Fail(server.Invalid("the field threshold is not a number from -%g to %g", float64(largestThreshold), float64(largestThreshold)))
	}
	if err := f.Close(); err != nil {
		return err
	}
	if m.Engine.Config().Sparse != model.Predict {
		return server.NotSupported("the model does not run with predictors, so it has no threshold; --sparse predict runs one that was prepared so")
	}
	m.Engine.SetThreshold(t)
	m.Log.Info("the sparse threshold was changed", "model", m.Name, "threshold", t)
	server.WriteJSON(w, map[string]float32{"threshold": t})
	return nil
}

// Sizes of a comparison, in tokens.
const (
	usualCompared = 24
	mostCompared  = 256
	mostBefore    = 128 // that are read as a prompt
)

// compare evaluates the end of a text as the model runs and with every neuron.
func compare(w http.ResponseWriter, r *http.Request, f *server.Fields, m *server.Model) error {
	text, n := "", usualCompared
	f.Read("text", &text)
	if f.Read("tokens", &n); n < 1 || n > mostCompared {
		f.Fail(server.Invalid("the field tokens is not a number from 1 to %d", mostCompared))
	}
	if err := f.Close(); err != nil {
		return err
	}
	e := m.Engine
	if e.Config().Sparse != model.Predict {
		return server.NotSupported("the model computes every neuron that is not zero, so there is nothing to compare")
	}
	tokens := e.Tokenizer().Encode(text, true, false)
	if most := min(n+mostBefore, e.Context()/2); len(tokens) > most {
		tokens = tokens[len(tokens)-most:]
	}
	if len(tokens) < 2 {
		return server.Invalid("the field text is too short to compare anything")
	}
	c, err := e.Compare(r.Context(), tokens, max(1, len(tokens)-n))
	if err != nil {
		return err
	}
	perToken := float64(c.Tokens) * 1e6 // ns in ms
	server.WriteJSON(w, map[string]any{
		"tokens": c.Tokens, "threshold": e.Threshold(), "divergence": c.Divergence, "same_top": c.SameTop,
		"ms": float64(c.Time) / perToken, "dense_ms": float64(c.DenseTime) / perToken,
	})
	return nil
}
