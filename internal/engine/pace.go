package engine

import "time"

// pace chooses how many tokens of prompts a step takes while other sequences generate, so that these need not wait long
// between two tokens. It learns from the times of the steps.
type pace struct {
	decode float64 // nanoseconds of a step of single tokens only; 0: there was none
	row    float64 // nanoseconds that a prompt's token adds to a step; 0: none was read
}

const (
	// widestGap limits the time of a step that also reads prompts, in steps of single tokens: under three, with some
	// reserve.
	widestGap = 2.25
	// firstChunk is the number of tokens read at a time before times are known.
	firstChunk = 16
	// paceMemory is the weight of the newest time in the averages.
	paceMemory = 0.25
)

// observe learns from the time of a step of decode single tokens and prompt tokens of prompts.
func (p *pace) observe(decode, prompt int, took time.Duration) {
	average := func(of *float64, v float64) {
		if *of == 0 {
			*of = v
		}
		*of += paceMemory * (v - *of)
	}
	switch {
	case prompt == 0:
		average(&p.decode, float64(took))
	case decode > 0:
		average(&p.row, max(float64(took)-p.decode, 1)/float64(prompt))
	default:
		average(&p.row, float64(took)/float64(prompt))
	}
}

// chunk returns how many tokens of prompts a step with single tokens may take, at most most.
func (p *pace) chunk(most int) int {
	n := firstChunk
	if p.decode > 0 && p.row > 0 {
		n = int(min((widestGap-1)*p.decode/p.row, float64(most)))
	}
	return min(most, round(max(1, n)))
}

// round rounds n down to 2^k or 3·2^k, so that steps have few different shapes, for which devices may record commands.
func round(n int) int {
	r := 1
	for 2*r <= n {
		r *= 2
	}
	if r > 1 && r+r/2 <= n {
		r += r / 2
	}
	return r
}
