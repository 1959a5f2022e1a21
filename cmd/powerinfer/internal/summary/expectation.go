package summary

import (
	"fmt"
	"time"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/progress"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
)

// ReadsOnly is the number of tokens of commands that generate nothing.
const ReadsOnly = -1

// mostLimited is the rate, in tokens per second, above which memory does not limit generation: the model is in the
// CPU's caches.
const mostLimited = 1000

// Expectation returns a line about the memory and the speed of a model.
func Expectation(m powerinfer.Memory, rate float64, tokens int) string {
	gib := func(n int64) float64 { return float64(n) / (1 << 30) }
	line := "about " + m.Parts() + " of memory"
	if m.Available > 0 {
		line += fmt.Sprintf(", of %.1f GiB that are free", gib(m.Available))
	}
	if m.OnGPUs > 0 {
		line += fmt.Sprintf(", and %.2f GiB on GPUs", gib(m.OnGPUs))
	}
	if m.OnDisk > 0 {
		line += fmt.Sprintf("; %.2f GiB stay on the disk", gib(m.OnDisk))
	}
	if rate > 0 && rate < mostLimited && tokens != ReadsOnly {
		line += fmt.Sprintf("; generates at most about %.1f tokens/s", rate)
		if whole := time.Duration(float64(tokens) / rate * float64(time.Second)); whole > progress.Patience() {
			line += fmt.Sprintf(", %s for %s", whole.Round(time.Second), quantity.Of(tokens, "token"))
		}
	}
	return line
}
