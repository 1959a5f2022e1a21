// Package metrics counts what a server does and shows it to Prometheus, by llama-server's names and by our own.
package metrics

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/powerinfer-go/powerinfer/internal/server"
)

// Metrics is a server's Meter. Where it serves one model, samples have no label for the model's name, as llama-server's
// have none.
type Metrics struct {
	registry *prometheus.Registry
	labels   []string // model, or none

	requests  *prometheus.CounterVec // by route and status
	answering *prometheus.HistogramVec
	loads     *prometheus.CounterVec // by model and outcome
	loading   prometheus.Histogram
	evictions *prometheus.CounterVec

	queue, first, between, whole *prometheus.HistogramVec // by model

	mu     sync.Mutex
	models map[string]*counter
}

// New returns metrics of nothing yet. several says that the server has several models.
func New(several bool) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), models: map[string]*counter{}}
	if several {
		m.labels = []string{"model"}
	}
	histogram := func(name, help string, buckets []float64, labels []string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	m.queue = histogram("powerinfer_queue_seconds", "Time that texts waited for the model to turn to them.", waits, m.labels)
	m.first = histogram("powerinfer_time_to_first_token_seconds", "Time from a request until its first token.", waits, m.labels)
	m.between = histogram("powerinfer_time_between_tokens_seconds", "Time from a text's token to the next.", steps, m.labels)
	m.whole = histogram("powerinfer_text_seconds", "Time from a request until its text ended.", waits, m.labels)
	m.answering = histogram("powerinfer_http_request_seconds", "Time that requests took, by route.", waits, []string{"route"})
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "powerinfer_http_requests_total", Help: "Answered requests, by route and status."},
		[]string{"route", "status"})
	m.loads = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "powerinfer_model_loads_total", Help: "Models loaded, by name and outcome."},
		[]string{"model", "outcome"})
	m.loading = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "powerinfer_model_load_seconds", Help: "Time that loading a model took.", Buckets: waits})
	m.evictions = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "powerinfer_model_evictions_total", Help: "Models freed for another's sake."}, []string{"model"})
	m.registry.MustRegister(m.queue, m.first, m.between, m.whole, m.answering, m.requests, m.loads, m.loading, m.evictions,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Buckets in seconds: of what a person waits for, and of a token.
var (
	waits = prometheus.ExponentialBuckets(0.005, 2, 17) // 5 ms to 328 s
	steps = prometheus.ExponentialBuckets(0.001, 2, 14) // 1 ms to 8 s
)

// Register adds the route to s, whose models are shown, too.
func (m *Metrics) Register(s *server.Server) {
	m.registry.MustRegister(&collector{metrics: m, models: s.Models})
	show := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	s.API(server.CommonForm).Get("/metrics", func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Process-Start-Time-Unix", strconv.FormatInt(s.Began().Unix(), 10))
		show.ServeHTTP(w, r)
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
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.answering.WithLabelValues(route).Observe(took.Seconds())
}

// Loaded counts a model that was loaded, or could not be.
func (m *Metrics) Loaded(name string, took time.Duration, err error) {
	if err != nil {
		m.loads.WithLabelValues(name, "failed").Inc()
		return
	}
	m.loads.WithLabelValues(name, "loaded").Inc()
	m.loading.Observe(took.Seconds())
}

// Evicted counts a model that was freed for another's sake.
func (m *Metrics) Evicted(name string) { m.evictions.WithLabelValues(name).Inc() }

// Model returns the meter of a model, which goes on where a model is loaded again.
func (m *Metrics) Model(name string) server.ModelMeter {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.models[name]
	if !ok {
		values := m.values(name)
		c = &counter{
			queue: m.queue.WithLabelValues(values...), first: m.first.WithLabelValues(values...),
			between: m.between.WithLabelValues(values...), whole: m.whole.WithLabelValues(values...),
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
