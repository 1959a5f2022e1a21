package summary

import (
	"testing"

	"github.com/powerinfer-go/powerinfer"
)

// TestExpectation: the line has the sum and its parts; GPUs, free memory and time appear only if they are known.
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
		{0, 0, 20, 20, "; generates at most about 20.0 tokens/s"}, // less than a second is not mentioned
		{0, 0, 20, 200, "; generates at most about 20.0 tokens/s, 10s for 200 tokens"},
		{0, 0, 20, ReadsOnly, ""},
		{0, 0, 2 * mostLimited, 1 << 20, ""},
	} {
		m.Available, m.OnGPUs = c.available, c.onGPUs
		if got := Expectation(m, c.rate, c.tokens); got != whole+c.more {
			t.Errorf("%+v gives %q, want %q", c, got, whole+c.more)
		}
	}
}
