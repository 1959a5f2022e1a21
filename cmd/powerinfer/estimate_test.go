package main

import (
	"slices"
	"testing"
	"time"

	"github.com/powerinfer-go/powerinfer"
)

// TestExpectation: the line names the sum and its parts, and speaks of GPUs, free memory and time only where something
// is known of them.
func TestExpectation(t *testing.T) {
	const gib = 1 << 30
	m := powerinfer.Memory{Weights: 3 * gib, Cache: gib / 2, Activations: gib / 4, Process: gib / 4, Need: 4 * gib}
	whole := "about 4096 MiB (weights 3072, KV cache 512, activations 256, the program 256) of memory"
	for _, c := range []struct {
		available, onGPUs int64
		rate              float64
		tokens            int
		more              string
	}{
		{0, 0, 0, 100, ""},
		{16 * gib, 0, 0, 100, ", of 16.0 GiB that are free"},
		{0, 2 * gib, 0, 100, ", and 2.00 GiB on GPUs"},
		{0, 0, 20, 0, "; generates at most about 20.0 tokens/s"},
		{0, 0, 20, 20, "; generates at most about 20.0 tokens/s"}, // a second is not worth a word
		{0, 0, 20, 200, "; generates at most about 20.0 tokens/s, 10s for 200 tokens"},
		{0, 0, 20, readsOnly, ""},
		{0, 0, 2 * mostLimited, 1 << 20, ""},
	} {
		m.Available, m.OnGPUs = c.available, c.onGPUs
		if got := expectation(m, c.rate, c.tokens); got != whole+c.more {
			t.Errorf("%+v gives %q, want %q", c, got, whole+c.more)
		}
	}
}

// TestRemaining: bytes are timed from the first of them on, whatever came before, and parts from the start of the work;
// it is told once.
func TestRemaining(t *testing.T) {
	t.Setenv("POWERINFER_PATIENCE", "2s")
	type step struct {
		after time.Duration // the start
		done  int64
	}
	for _, c := range []struct {
		parts string
		steps []step
		want  []string
	}{
		{"", []step{{30 * time.Second, 1}}, nil}, // a first byte after a long start says nothing of the rest
		{"", []step{{30 * time.Second, 1}, {30*time.Second + enough/2, 6}, {30*time.Second + enough, 11}, {40 * time.Second, 100}}, []string{"about 10s"}},
		{"", []step{{0, 1}, {time.Second, 91}}, nil}, // shorter than the patience
		{"", []step{{0, 1}, {2 * time.Second, 1}, {4 * time.Second, 5}}, []string{"about 1m40s"}},
		{"windows", []step{{time.Second, 10}, {2 * time.Second, 11}}, []string{"about 10s for 100 windows"}},
	} {
		var told []string
		start := time.Unix(1000, 0)
		clock := start
		r := newRemaining(c.parts)
		r.now, r.out = func() time.Time { return clock }, func(s string) { told = append(told, s) }
		if c.parts != "" {
			r.begin = start
		}
		for _, s := range c.steps {
			clock = start.Add(s.after)
			r.set(s.done, 100)
		}
		if !slices.Equal(told, c.want) {
			t.Errorf("%q, %v: told %q, want %q", c.parts, c.steps, told, c.want)
		}
	}
}
