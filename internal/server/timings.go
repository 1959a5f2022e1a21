package server

import (
	"math"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/engine"
)

// Timings are llama-server's: what a text took.
type Timings struct {
	CacheN              int     `json:"cache_n"`
	PromptN             int     `json:"prompt_n"`
	PromptMS            float64 `json:"prompt_ms"`
	PromptPerTokenMS    float64 `json:"prompt_per_token_ms"`
	PromptPerSecond     float64 `json:"prompt_per_second"`
	PredictedN          int     `json:"predicted_n"`
	PredictedMS         float64 `json:"predicted_ms"`
	PredictedPerTokenMS float64 `json:"predicted_per_token_ms"`
	PredictedPerSecond  float64 `json:"predicted_per_second"`
	DraftN              int     `json:"draft_n,omitempty"`          // drafted tokens that were checked
	DraftNAccepted      int     `json:"draft_n_accepted,omitempty"` // drafted tokens that were accepted

	// Uses of an expert by a token of the text or its prompt, in layers with experts that follow the text, by where the
	// expert was. These fields are our own.
	ExpertsGPUN int64 `json:"experts_gpu_n,omitempty"`
	ExpertsRAMN int64 `json:"experts_ram_n,omitempty"`

	// Uses of experts or neurons on disk while the text was generated, also by other texts: in RAM, read ahead, and the
	// others. Then the bytes read, and the time that steps waited. These fields are our own.
	UnitsRAMN   int64   `json:"units_ram_n,omitempty"`
	UnitsAheadN int64   `json:"units_ahead_n,omitempty"`
	UnitsDiskN  int64   `json:"units_disk_n,omitempty"`
	LeftOutN    int64   `json:"experts_left_out_n,omitempty"` // uses of experts that were left out instead of read
	DiskBytes   int64   `json:"disk_bytes,omitempty"`
	DiskWaitMS  float64 `json:"disk_wait_ms,omitempty"`

	// Drafts by hot neurons, and by the file's MTP layer. These fields are our own.
	DraftHotN         int `json:"draft_hot_n,omitempty"`
	DraftHotNAccepted int `json:"draft_hot_n_accepted,omitempty"`
	DraftMTPN         int `json:"draft_mtp_n,omitempty"`
	DraftMTPNAccepted int `json:"draft_mtp_n_accepted,omitempty"`
}

// TimingsOf returns the timings of a text.
func TimingsOf(r *engine.Result) *Timings {
	t := &Timings{CacheN: r.Reused, PromptN: r.PromptTokens, PredictedN: r.Tokens, DraftN: r.Drafted, DraftNAccepted: r.Accepted, DraftHotN: r.HotDrafted, DraftHotNAccepted: r.HotAccepted, DraftMTPN: r.FurtherDrafted, DraftMTPNAccepted: r.FurtherAccepted, ExpertsGPUN: r.Experts.Hits, ExpertsRAMN: r.Experts.Misses}
	t.UnitsRAMN, t.UnitsAheadN, t.UnitsDiskN = r.Units.Hits, r.Units.GuessesUsed, r.Units.Misses
	t.LeftOutN, t.DiskBytes, t.DiskWaitMS = r.Units.Left, r.Units.Bytes, r.Units.Wait.Seconds()*1000
	t.PromptMS, t.PromptPerTokenMS, t.PromptPerSecond = rates(r.PromptTime, r.PromptTokens)
	t.PredictedMS, t.PredictedPerTokenMS, t.PredictedPerSecond = rates(r.Time, r.Tokens-1) // the prompt's step gave the first
	return t
}

// promptTimings returns the timings of a prompt that is being read.
func promptTimings(cached, read int, d time.Duration) *Timings {
	t := &Timings{CacheN: cached, PromptN: read}
	if read > 0 {
		t.PromptMS, t.PromptPerTokenMS, t.PromptPerSecond = rates(d, read)
	}
	return t
}

// rates returns a time in ms, in ms per token, and in tokens per second.
func rates(d time.Duration, tokens int) (ms, perToken, perSecond float64) {
	ms = d.Seconds() * 1000
	if tokens > 0 && ms > 0 {
		perToken, perSecond = ms/float64(tokens), float64(tokens)/d.Seconds()
	}
	return ms, perToken, perSecond
}

// A Probability is a token with the natural logarithm of its probability.
type Probability struct {
	ID      int32         `json:"id"`
	Token   string        `json:"token"`
	Bytes   []int         `json:"bytes"`
	Logprob float32       `json:"logprob"`
	Top     []Probability `json:"top_logprobs,omitempty"`
}

// A Chance is a token with its probability after all samplers.
type Chance struct {
	ID    int32    `json:"id"`
	Token string   `json:"token"`
	Bytes []int    `json:"bytes"`
	Prob  float64  `json:"prob"`
	Top   []Chance `json:"top_probs,omitempty"`
}

// ChanceOf returns what p says of probabilities as a Chance.
func (p *Probability) ChanceOf() Chance {
	c := Chance{ID: p.ID, Token: p.Token, Bytes: p.Bytes, Prob: math.Exp(float64(p.Logprob))}
	for i := range p.Top {
		c.Top = append(c.Top, p.Top[i].ChanceOf())
	}
	return c
}

// leastLogprob stands for the logarithm of the probability 0, which JSON cannot express.
const leastLogprob = -1e30

// ProbabilityOf returns the probability of a token and of the other candidates.
func (m *Model) ProbabilityOf(t *engine.Token) Probability {
	p := m.probability(t.ID, t.Logprob)
	for _, l := range t.Top {
		p.Top = append(p.Top, m.probability(l.ID, l.Logprob))
	}
	return p
}

func (m *Model) probability(id int32, logprob float32) Probability {
	piece := m.Piece(id)
	p := Probability{ID: id, Token: string(piece), Logprob: max(logprob, leastLogprob), Bytes: make([]int, len(piece))}
	for i, b := range piece {
		p.Bytes[i] = int(b)
	}
	return p
}

// Piece returns a token's text; nothing for outputs that stand for no token.
func (m *Model) Piece(id int32) []byte {
	tok := m.Engine.Tokenizer()
	if id < 0 || int(id) >= tok.Size() {
		return nil
	}
	return tok.Piece(id, true)
}
