package neurons_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/server"
	"github.com/powerinfer-go/powerinfer/internal/server/llamacpp"
	"github.com/powerinfer-go/powerinfer/internal/server/neurons"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// serve returns the address of a server of the embedded model.
func serve(t *testing.T, mode model.SparseMode) string {
	t.Helper()
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	template, err := chat.Named("chatml", f)
	if err != nil {
		t.Fatal(err)
	}
	e, err := session.Open(t.Context(), f, session.Options{
		Engine:  engine.Options{Limits: engine.Limits{Sequences: 2}, Neurons: engine.Neurons{Sparse: mode}},
		Planner: planner.Options{GPUs: planner.GPUs{Devices: "none"}, Processor: planner.Processor{Threads: 1}, Notice: func(string) {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	single := &server.Single{}
	single.Set(server.Listed{Name: "tales", Model: server.NewModel(e.Engine, server.ModelOptions{
		Name: "tales", Slots: 2, Predict: -1, Sampling: sample.DefaultOptions(), Template: template, Log: log,
	})})
	s := server.New(single, server.Options{Timeout: time.Hour, Log: log})
	llamacpp.Register(s, nil)
	neurons.Register(s)
	h := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		h.Close()
		e.Close()
	})
	return h.URL
}

// ask posts body, or gets path without a body, and decodes the answer into v.
func ask(t *testing.T, url, body string, v any) int {
	t.Helper()
	res, err := http.Get(url)
	if body != "" {
		res, err = http.Post(url, "application/json", strings.NewReader(body))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(v); err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return res.StatusCode
}

type spent struct {
	Steps, Tokens, Chosen, Bytes, RAM int64
	Dense                             int64   `json:"dense_bytes"`
	MS                                float64 `json:"ms"`
	Predictor                         float64 `json:"predictor_ms"`
	Neurons                           float64 `json:"neurons_ms"`
}

type event struct {
	Generation, Prompts spent
	Computed, Active    []float64
	Map                 []string
}

// rounding is the largest error of a mean of shades: there are 256 shades, and a bin may have one neuron more than
// others.
const rounding = 0.02

// TestEvents: events of an answer add up to it, and the places are the model's.
func TestEvents(t *testing.T) {
	url := serve(t, model.Predict)
	var d struct {
		Mode       string
		Adjustable bool
		Layers     []struct {
			Neurons, GPU int
			Dense        int64 `json:"dense_bytes"`
		}
		Plan any
	}
	if status := ask(t, url+"/neurons", "", &d); status != http.StatusOK || d.Mode != "predict" || !d.Adjustable || len(d.Layers) != 6 || d.Layers[0].GPU != -1 || d.Plan != nil {
		t.Fatalf("status %d: %+v", status, d)
	}
	r, _ := http.NewRequestWithContext(t.Context(), "GET", url+"/neurons/events", nil)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	if !lines.Scan() { // a sign of life: from now on all events are sent
		t.Fatal(lines.Err())
	}
	const chosen = 30
	var answer any
	if status := ask(t, url+"/completion", `{"prompt":"Once upon a time","n_predict":30,"ignore_eos":true}`, &answer); status != http.StatusOK {
		t.Fatal(answer)
	}
	var sum spent
	for sum.Chosen < chosen && lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatal(err)
		}
		for _, s := range []spent{e.Generation, e.Prompts} {
			sum.Chosen += s.Chosen
			sum.Bytes += s.Bytes
			sum.Dense += s.Dense
			sum.MS += s.MS
			sum.Neurons += s.Neurons
			sum.Predictor += s.Predictor
		}
		for l := range d.Layers {
			shades, err := base64.StdEncoding.DecodeString(e.Map[l])
			if err != nil || len(shades) == 0 || e.Active[l] > e.Computed[l] || e.Computed[l] <= 0 || e.Computed[l] >= 1 {
				t.Errorf("layer %d: %d shades, %g computed, %g active: %v", l, len(shades), e.Computed[l], e.Active[l], err)
			}
			mean := 0.0
			for _, s := range shades {
				mean += float64(s) * float64(s) / 255 / 255 / float64(len(shades))
			}
			if math.Abs(mean-e.Computed[l]) > rounding {
				t.Errorf("layer %d: the picture shows a share of %g, computed were %g", l, mean, e.Computed[l])
			}
		}
	}
	if sum.Chosen != chosen || sum.Bytes <= 0 || sum.Bytes >= sum.Dense || sum.Neurons <= 0 || sum.Predictor <= 0 || sum.Neurons+sum.Predictor > sum.MS {
		t.Errorf("in all: %+v", sum)
	}
}

func TestThreshold(t *testing.T) {
	url := serve(t, model.Predict)
	var c struct {
		Tokens     int
		Divergence float64
		SameTop    float64 `json:"same_top"`
		MS         float64
		DenseMS    float64 `json:"dense_ms"`
	}
	const text = `"text":"Once upon a time there was a king who had three daughters, and the youngest was fair"`
	var set map[string]any
	for _, k := range []struct {
		threshold string
		more      bool // divergence than with every neuron
	}{{"-1000", false}, {"4", true}} {
		if status := ask(t, url+"/neurons/threshold", `{"threshold":`+k.threshold+`}`, &set); status != http.StatusOK {
			t.Fatalf("status %d: %v", status, set)
		}
		if status := ask(t, url+"/neurons/compare", `{`+text+`,"tokens":8}`, &c); status != http.StatusOK || c.Tokens != 8 || c.MS <= 0 || c.DenseMS <= 0 {
			t.Fatalf("status %d: %+v", status, c)
		}
		if more := c.Divergence > 1e-6; more != k.more {
			t.Errorf("threshold %s: a divergence of %g", k.threshold, c.Divergence)
		}
	}
	for path, body := range map[string]string{
		"/neurons/threshold": `{}`,
		"/neurons/compare":   `{"text":""}`,
	} {
		if status := ask(t, url+path, body, &set); status != http.StatusBadRequest {
			t.Errorf("%s %s: status %d", path, body, status)
		}
	}
	for _, body := range []string{`{"threshold":1e9}`, `{"threshold":"high"}`} {
		if status := ask(t, url+"/neurons/threshold", body, &set); status != http.StatusBadRequest {
			t.Errorf("%s: status %d", body, status)
		}
	}
	if status := ask(t, serve(t, model.Exact)+"/neurons/threshold", `{"threshold":1}`, &set); status != http.StatusNotImplemented {
		t.Errorf("a model without predictors: status %d", status)
	}
}

// TestStop: watching clients do not keep a stopped server from ending.
func TestStop(t *testing.T) {
	s := server.New(&server.Single{}, server.Options{Timeout: time.Minute, Grace: time.Hour, Log: slog.New(slog.DiscardHandler)})
	neurons.Register(s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	res, err := http.Get("http://" + l.Addr().String() + "/neurons/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
