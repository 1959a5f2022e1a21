package server_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/powerinfer-go/powerinfer/internal/server/metrics"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// measured starts a server with metrics.
func measured(t *testing.T, several bool) *live {
	m := metrics.New(several)
	l := start(t, func(o *choices) { o.Meter, o.model.Meter = m, m })
	m.Register(l.s)
	return l
}

// scrape returns the metrics by name, read by Prometheus' own parser.
func (l *live) scrape() map[string]*dto.MetricFamily {
	res := l.request(context.Background(), "GET", "/metrics", "")
	defer res.Body.Close()
	p := expfmt.NewTextParser(model.LegacyValidation)
	all, err := p.TextToMetricFamilies(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || res.Header.Get("Process-Start-Time-Unix") == "" {
		l.t.Fatalf("/metrics: status %d, %v: %v", res.StatusCode, res.Header, err)
	}
	return all
}

// value returns a metric's sum over its samples that have all of labels, each name="value".
func value(all map[string]*dto.MetricFamily, name string, labels ...string) (sum float64) {
	for _, m := range all[name].GetMetric() {
		has := 0
		for _, p := range m.GetLabel() {
			for _, want := range labels {
				if p.GetName()+"="+p.GetValue() == want {
					has++
				}
			}
		}
		if has == len(labels) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// TestMetrics: counters match the answers.
func TestMetrics(t *testing.T) {
	l := measured(t, false)
	var read, cached, predicted float64
	for _, n := range []string{"1", "4", "9"} {
		timings := l.good("/completion", `{"prompt":"The quick brown fox jumps over the lazy dog","n_predict":`+n+`,"ignore_eos":true}`)["timings"]
		read += at(t, timings, "prompt_n").(float64)
		cached += at(t, timings, "cache_n").(float64)
		predicted += at(t, timings, "predicted_n").(float64)
		if n == "1" && at(t, timings, "predicted_per_second") != 0.0 {
			t.Errorf("one token, which the prompt's step gave, has a speed: %v", timings)
		}
	}
	read += at(t, l.good("/v1/embeddings", `{"input":["The fox","The dog"]}`), "usage", "prompt_tokens").(float64)
	l.ask("/completion", `{"prompt":5}`)
	l.ask("/nowhere", `{}`)
	all := l.scrape()
	for name, want := range map[string]float64{
		"llamacpp:prompt_tokens_total": read, "llamacpp:prompt_tokens_cached_total": cached, "llamacpp:tokens_predicted_total": predicted,
		"llamacpp:requests_processing": 0, "llamacpp:requests_deferred": 0, "llamacpp:spec_decode_num_drafts_total": 0,
		"powerinfer_requests_running": 0, "powerinfer_requests_waiting": 0, "powerinfer_kv_cache_usage_ratio": 0,
		"powerinfer_queue_seconds": 3, "powerinfer_time_to_first_token_seconds": 3, "powerinfer_time_between_tokens_seconds": predicted - 3,
		"powerinfer_text_seconds": 3, "powerinfer_texts_total": 3, "powerinfer_kv_cache_page_tokens": 64,
	} {
		if got := value(all, name); all[name] == nil || got != want {
			t.Errorf("%s is %v, not %v", name, got, want)
		}
	}
	if cached == 0 || value(all, "llamacpp:n_decode_total") < predicted-3 || value(all, "powerinfer_kv_cache_pages", "state=kept") == 0 {
		t.Errorf("%v tokens cached, %v steps, %v pages kept", cached, value(all, "llamacpp:n_decode_total"), value(all, "powerinfer_kv_cache_pages", "state=kept"))
	}
	if n := value(all, "powerinfer_neurons_active_ratio"); n <= 0 || n >= 0.9 { // the embedded model is a prepared one
		t.Errorf("%v of the neurons are active", n)
	}
	if n := value(all, "powerinfer_tier_neurons_total", "tier=ram", "kind=active"); n == 0 || n != value(all, "powerinfer_neurons_total", "kind=active") {
		t.Errorf("%v active neurons in RAM, where all are", n)
	}
	if n := value(all, "powerinfer_tier_ffn_bytes_total"); n != value(all, "powerinfer_ffn_bytes_total", "kind=read") {
		t.Errorf("%v bytes read in all tiers, %v altogether", n, value(all, "powerinfer_ffn_bytes_total", "kind=read"))
	}
	timed := value(all, "powerinfer_part_seconds_total") + value(all, "powerinfer_waiting_seconds_total") - value(all, "powerinfer_overlap_seconds_total")
	if whole := value(all, "powerinfer_step_seconds_total"); timed <= 0 || timed > whole || value(all, "powerinfer_part_seconds_total", "part=predictor") <= 0 {
		t.Errorf("parts of %v s in steps of %v s", timed, whole)
	}
	for status, want := range map[string]float64{"200": 4, "400": 1, "404": 1} {
		if got := value(all, "powerinfer_http_requests_total", "status="+status); got != want {
			t.Errorf("%v requests of status %s, not %v", got, status, want)
		}
	}
	for name, f := range all {
		if strings.HasPrefix(name, "llamacpp:") && (len(f.GetMetric()) != 1 || len(f.GetMetric()[0].GetLabel()) != 0) {
			t.Errorf("%s has labels, which llama-server's have not", name)
		}
	}
}

// TestMetricsOfSeveralModels: samples have the model's name, and are available during generations.
func TestMetricsOfSeveralModels(t *testing.T) {
	l := measured(t, true)
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 3 { // for two slots
		clients.Go(func() {
			for ctx.Err() == nil {
				r, _ := http.NewRequestWithContext(ctx, "POST", l.url+"/completion", strings.NewReader(long))
				if res, err := http.DefaultClient.Do(r); err == nil {
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
			}
		})
	}
	eventually(t, "two run and one waits", func() bool {
		all := l.scrape()
		return value(all, "powerinfer_requests_running", "model=tales") == 2 && value(all, "powerinfer_requests_waiting", "model=tales") == 1 &&
			value(all, "powerinfer_kv_cache_usage_ratio", "model=tales") > 0
	})
	cancel()
	clients.Wait()
	eventually(t, "all ended", l.idle)
}

// TestMetricsOfChart: metrics include all that the chart's autoscaling, its endpoint picker and their documentation
// use.
func TestMetricsOfChart(t *testing.T) {
	l := measured(t, true)
	l.good("/completion", `{"prompt":"Once","n_predict":1}`)
	all, asked := l.scrape(), 0
	root := testenv.Root(t)
	for _, name := range []string{"deploy/helm", "deploy/kubernetes", "docs/kubernetes.md"} {
		err := filepath.WalkDir(filepath.Join(root, name), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			for _, metric := range regexp.MustCompile(`\bpowerinfer_[a-z_]+[a-z]`).FindAllString(string(text), -1) {
				if asked++; all[metric] == nil {
					t.Errorf("%s asks for %s, which the server has not", path, metric)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if asked == 0 {
		t.Error("nothing asks for any metric")
	}
}

func TestNoMetrics(t *testing.T) {
	l := start(t, nil)
	metrics.Refuse(l.s)
	res := l.request(t.Context(), "GET", "/metrics", "")
	defer res.Body.Close()
	if res.StatusCode != http.StatusNotImplemented {
		t.Errorf("status %d", res.StatusCode)
	}
}
