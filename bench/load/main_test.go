package main

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// slow answers with a first token after 30 ms, and the others after 10 ms each.
type slow struct{}

func (slow) RoundTrip(r *http.Request) (*http.Response, error) {
	body, out := io.Pipe()
	go func() {
		time.Sleep(20 * time.Millisecond)
		for range 4 {
			time.Sleep(10 * time.Millisecond)
			fmt.Fprint(out, "data: {\"content\":\"a\",\"stop\":false}\n\n")
		}
		fmt.Fprint(out, "data: {\"content\":\"\",\"stop\":true,\"tokens_predicted\":4}\n\n")
		out.Close()
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: body, Request: r}, nil
}

// TestRun: clients measure the server's times, by the bubble's clock.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := work{clients: 3, each: 2, least: 5, most: 50, gen: 4, vocab: 100, seed: 1, client: &http.Client{Transport: slow{}}}
		s, err := w.run(t.Context(), server{"slow", "http://slow.example"})
		if err != nil {
			t.Fatal(err)
		}
		if want := (seen{rate: 3 * 4 / 0.06, first: 30 * time.Millisecond, gap: 10 * time.Millisecond}); math.Abs(s.rate-want.rate) > 1e-6*want.rate || s.first != want.first || s.gap != want.gap {
			t.Errorf("clients saw %+v of answers whose tokens come after 30, 10, 10 and 10 ms, not %+v", s, want)
		}
		w.gen = 5
		if _, err := w.run(t.Context(), server{"slow", "http://slow.example"}); err == nil || !strings.Contains(err.Error(), "4 tokens, not 5") {
			t.Errorf("an answer that is too short: %v", err)
		}
	})
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

// TestTable: ratios are within rounds, and greater than 1 if the first server is better.
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
