package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// slowServer answers with a first token after 30 ms, and the others after 10 ms each.
func slowServer(t *testing.T) server {
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := range 4 {
			time.Sleep(10 * time.Millisecond)
			if i == 0 {
				time.Sleep(20 * time.Millisecond)
			}
			fmt.Fprintf(w, "data: {\"content\":\"a\",\"stop\":false}\n\n")
			w.(http.Flusher).Flush()
		}
		fmt.Fprint(w, "data: {\"content\":\"\",\"stop\":true,\"tokens_predicted\":4}\n\n")
	}))
	t.Cleanup(h.Close)
	return server{"slow", h.URL}
}

// TestRun: what clients see is what the server did. A loaded machine may only make answers slower: a client that reads
// a token late sees a shorter gap behind it, but the longest gap makes up for that.
func TestRun(t *testing.T) {
	w := work{clients: 3, each: 2, least: 5, most: 50, gen: 4, vocab: 100, seed: 1}
	s, err := w.run(t.Context(), slowServer(t))
	if err != nil {
		t.Fatal(err)
	}
	if s.first < 30*time.Millisecond || s.first+3*s.gap < 60*time.Millisecond || s.rate <= 0 || s.rate > 3*4/0.06 {
		t.Errorf("clients saw %+v of answers whose tokens come after 30, 10, 10 and 10 ms", s)
	}
	w.gen = 5
	if _, err := w.run(t.Context(), slowServer(t)); err == nil || !strings.Contains(err.Error(), "4 tokens, not 5") {
		t.Errorf("an answer that is too short: %v", err)
	}
}

func TestQuantile(t *testing.T) {
	var x []time.Duration
	for i := 100; i > 0; i-- {
		x = append(x, time.Duration(i))
	}
	for share, want := range map[float64]time.Duration{0.5: 50, 0.95: 95, 1: 100, 0.001: 1} {
		if got := quantile(x, share); got != want {
			t.Errorf("%g of 1 to 100 keep to %d, not %d", share, got, want)
		}
	}
}

// TestTable: ratios are within rounds, and greater than 1 where the first server is better.
func TestTable(t *testing.T) {
	r := results{}
	for i, factor := range []float64{1, 10, 3} { // the machine's speed
		r.add(4, "a", seen{100 * factor, time.Duration(float64(10*time.Millisecond) / factor), time.Millisecond})
		r.add(4, "b", seen{50 * factor, time.Duration(float64(40*time.Millisecond) / factor), time.Millisecond * time.Duration(1+i)})
	}
	table := r.table([]server{{"a", ""}, {"b", ""}}, []int{4})
	for _, want := range []string{
		"| clients | | a | b | a / b |", "| 4 | tokens/s | 300.0 (100.0–1000.0) | 150.0 (50.0–500.0) | 2.00 (2.00–2.00) |",
		"| 4.00 (4.00–4.00) |", "| 1.0 (1.0–1.0) | 2.0 (1.0–3.0) | 2.00 (1.00–3.00) |",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
}
