// Package metrics counts what a server does and shows it to Prometheus, by llama-server's names and by our own.
package metrics

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/powerinfer-go/powerinfer/internal/server"
)

// Metrics is a server's Meter. Where it serves one model, samples have no label for the model's name, as llama-server's
// have none.
type Metrics struct {
	labels []string // model, or none

	requests  *series[atomic.Int64] // by route and status
	answering *series[histogram]
	loads     *series[atomic.Int64] // by model and outcome
	loading   *series[histogram]
	evictions *series[atomic.Int64]

	queue, first, between, whole *series[histogram] // by model

	mu     sync.Mutex
	models map[string]*counter
}

// New returns metrics of nothing yet. several says that the server has several models.
func New(several bool) *Metrics {
	m := &Metrics{models: map[string]*counter{}}
	if several {
		m.labels = []string{"model"}
	}
	waits, steps := rising(0.005, 17), rising(0.001, 14) // s that a person waits for, up to 328, and that a token takes, up to 8
	m.queue = histograms("powerinfer_queue_seconds", "Time that texts waited for the model to turn to them.", waits, m.labels...)
	m.first = histograms("powerinfer_time_to_first_token_seconds", "Time from a request until its first token.", waits, m.labels...)
	m.between = histograms("powerinfer_time_between_tokens_seconds", "Time from a text's token to the next.", steps, m.labels...)
	m.whole = histograms("powerinfer_text_seconds", "Time from a request until its text ended.", waits, m.labels...)
	m.answering = histograms("powerinfer_http_request_seconds", "Time that requests took, by route.", waits, "route")
	m.requests = counters("powerinfer_http_requests_total", "Answered requests, by route and status.", "route", "status")
	m.loads = counters("powerinfer_model_loads_total", "Models loaded, by name and outcome.", "model", "outcome")
	m.loading = histograms("powerinfer_model_load_seconds", "Time that loading a model took.", waits)
	m.loading.at() // so that it is shown before a model is loaded
	m.evictions = counters("powerinfer_model_evictions_total", "Models freed for another's sake.", "model")
	return m
}

// Register adds the route to s, and shows its models, too.
func (m *Metrics) Register(s *server.Server) {
	metrics.ExposeMetadata(true)
	s.API(server.CommonForm).Get("/metrics", func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Process-Start-Time-Unix", strconv.FormatInt(s.Began().Unix(), 10))
		w.Header().Set("Content-Type", contentType)
		e := exposition{}
		for _, c := range []*series[atomic.Int64]{m.requests, m.loads, m.evictions} {
			c.each(func(labels []label, v *atomic.Int64) {
				e.add(c.name, c.help, isCounter, "", float64(v.Load()), labels...)
			})
		}
		for _, h := range []*series[histogram]{m.queue, m.first, m.between, m.whole, m.answering, m.loading} {
			h.each(func(labels []label, v *histogram) { e.histogram(h.name, h.help, v, labels) })
		}
		m.collect(s.Models, e)
		if err := e.write(w); err != nil {
			return nil // the client has left
		}
		metrics.WriteProcessMetrics(w)
		metrics.WriteFDMetrics(w)
		return nil
	})
}

// Refuse adds the route to a server that was started without metrics.
func Refuse(s *server.Server) {
	s.API(server.CommonForm).Get("/metrics", func(http.ResponseWriter, *http.Request) error {
		return server.NotSupported("the server was started without --metrics")
	})
}

// Request counts an answered request.
func (m *Metrics) Request(route string, status int, took time.Duration) {
	if _, path, ok := strings.Cut(route, " "); ok {
		route = path
	}
	m.requests.at(route, strconv.Itoa(status)).Add(1)
	m.answering.at(route).observe(took.Seconds())
}

// Loaded counts a model that was loaded, or could not be.
func (m *Metrics) Loaded(name string, took time.Duration, err error) {
	if err != nil {
		m.loads.at(name, "failed").Add(1)
		return
	}
	m.loads.at(name, "loaded").Add(1)
	m.loading.at().observe(took.Seconds())
}

// Evicted counts a model that was freed for another's sake.
func (m *Metrics) Evicted(name string) { m.evictions.at(name).Add(1) }

// Model returns the meter of a model. It continues when a model is loaded again.
func (m *Metrics) Model(name string) server.ModelMeter {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.models[name]
	if !ok {
		values := m.values(name)
		c = &counter{
			queue: m.queue.at(values...), first: m.first.at(values...),
			between: m.between.at(values...), whole: m.whole.at(values...),
		}
		m.models[name] = c
	}
	return c
}

// values returns the values of a model's labels.
func (m *Metrics) values(name string) []string {
	if len(m.labels) == 0 {
		return nil
	}
	return []string{name}
}
