package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

// work describes the requests of one run.
type work struct {
	clients, each int // requests of each client, one after the other
	least, most   int // tokens of a prompt
	gen, vocab    int
	seed          uint64
	client        *http.Client
}

// seen holds the figures of one run against a server.
type seen struct {
	rate  float64       // generated tokens per second of all together
	first time.Duration // to the first token, median
	gap   time.Duration // between two tokens of an answer, which 95 of 100 gaps keep to
}

// answer holds the times of one answer, as its client measured them.
type answer struct {
	first time.Duration
	gaps  []time.Duration
}

// run makes all clients send their requests to s.
func (w *work) run(ctx context.Context, s server) (seen, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	var all []answer
	var group sync.WaitGroup
	begin := time.Now()
	for i := range w.clients {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(w.seed, uint64(i)))
			for range w.each {
				a, err := w.ask(ctx, s, rng)
				if err != nil {
					cancel(err)
					return
				}
				mu.Lock()
				all = append(all, a)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return seen{}, context.Cause(ctx)
	}
	return w.summary(all, time.Since(begin)), nil
}

func (w *work) summary(all []answer, took time.Duration) seen {
	var firsts, gaps []time.Duration
	for _, a := range all {
		firsts, gaps = append(firsts, a.first), append(gaps, a.gaps...)
	}
	return seen{float64(len(all)*w.gen) / took.Seconds(), quantile(firsts, 0.5), quantile(gaps, 0.95)}
}

// quantile returns the value that a share of x does not exceed; 0 of nothing.
func quantile(x []time.Duration, share float64) time.Duration {
	if len(x) == 0 {
		return 0
	}
	x = slices.Sorted(slices.Values(x))
	return x[min(len(x)-1, int(math.Ceil(share*float64(len(x))))-1)]
}

// prompt returns random tokens of a random number.
func (w *work) prompt(rng *rand.Rand) []int {
	n := int(math.Round(float64(w.least) * math.Pow(float64(w.most)/float64(w.least), rng.Float64())))
	ids := make([]int, n)
	for i := range ids {
		ids[i] = 10 + rng.IntN(w.vocab-10) // the first ones are special
	}
	return ids
}

// ask sends a request for a new prompt's continuation and watches the answer come.
func (w *work) ask(ctx context.Context, s server, rng *rand.Rand) (answer, error) {
	body, err := json.Marshal(map[string]any{
		"prompt": w.prompt(rng), "n_predict": w.gen, "stream": true, "ignore_eos": true, "cache_prompt": false, "temperature": 0,
	})
	if err != nil {
		return answer{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/completion", bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	begin := time.Now()
	res, err := w.client.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1000))
		return answer{}, fmt.Errorf("%s: %s", res.Status, text)
	}
	return w.watch(res.Body, begin)
}

// watch reads an answer's events. Pieces without text, as of half a character, are tokens, too.
func (w *work) watch(body io.Reader, begin time.Time) (answer, error) {
	var a answer
	last, tokens := begin, 0
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		var event struct {
			Stop      bool `json:"stop"`
			Predicted int  `json:"tokens_predicted"`
		}
		if err := json.Unmarshal(data, &event); err != nil {
			return a, err
		}
		now := time.Now()
		switch {
		case event.Stop:
			if event.Predicted != w.gen {
				return a, fmt.Errorf("an answer has %d tokens, not %d", event.Predicted, w.gen)
			}
			return a, nil
		case tokens == 0:
			a.first = now.Sub(begin)
		default:
			a.gaps = append(a.gaps, now.Sub(last))
		}
		last, tokens = now, tokens+1
	}
	if err := lines.Err(); err != nil {
		return a, err
	}
	return a, io.ErrUnexpectedEOF
}
