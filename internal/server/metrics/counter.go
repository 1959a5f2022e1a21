package metrics

import (
	"sync"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/engine"
)

// A counter is a model's ModelMeter.
type counter struct {
	queue, first, between, whole *histogram

	mu sync.Mutex
	totals
	scraped totals // when they were asked for last
}

// totals holds sums over a model's texts under the names of llama-server's counters.
type totals struct {
	prompt, cached, predicted                                                           int64
	drafts, drafted, accepted, hotDrafted, hotAccepted, furtherDrafted, furtherAccepted int64 // see engine.Result
	promptTime, predictedTime                                                           time.Duration
	timed                                                                               int64 // generated tokens that predictedTime is of
	longest                                                                             int   // sequence
	ends                                                                                [len(ends)]int64
}

// ends are why texts end.
var ends = [...]engine.StopReason{
	engine.StopEOG, engine.StopToken, engine.StopString, engine.StopLength, engine.StopContext, engine.StopCancelled, engine.StopCaller, engine.StopGrammar, "",
}

// endLabels are their labels.
var endLabels = [len(ends)]string{"eos", "stop_token", "stop_string", "length", "context", "cancelled", "cancelled_by_client", "grammar", "error"}

// Token counts a token.
func (c *counter) Token(after time.Duration, first bool) {
	if first {
		c.first.observe(after.Seconds())
	} else {
		c.between.observe(after.Seconds())
	}
}

// Ended counts a text that ended.
func (c *counter) Ended(r *engine.Result, waited, took time.Duration) {
	c.queue.observe(waited.Seconds())
	c.whole.observe(took.Seconds())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prompt += int64(r.PromptTokens)
	c.cached += int64(r.Reused)
	c.predicted += int64(r.Tokens)
	c.drafts += int64(r.Drafts)
	c.drafted += int64(r.Drafted)
	c.accepted += int64(r.Accepted)
	c.hotDrafted += int64(r.HotDrafted)
	c.hotAccepted += int64(r.HotAccepted)
	c.furtherDrafted += int64(r.FurtherDrafted)
	c.furtherAccepted += int64(r.FurtherAccepted)
	c.promptTime += r.PromptTime
	c.predictedTime += r.Time
	c.timed += max(0, int64(r.Tokens)-1) // the prompt's step gave the first
	c.longest = max(c.longest, r.Reused+r.PromptTokens+r.Tokens)
	for i, e := range ends {
		if e == r.Stop {
			c.ends[i]++
		}
	}
}

// Read counts tokens that were evaluated and not generated from.
func (c *counter) Read(tokens int, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prompt += int64(tokens)
	c.promptTime += took
	c.longest = max(c.longest, tokens)
}

// scrape returns the totals, and what they were when they were asked for before.
func (c *counter) scrape() (now, before totals) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, before = c.totals, c.scraped
	c.scraped = now
	return now, before
}
