package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// soakClients ask at a time: more than the usual number of slots.
const soakClients = 12

// tally counts answers by path and status.
type tally struct {
	mu    sync.Mutex
	count map[string]int
	odd   []string // answers that nothing explains
}

func (t *tally) add(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count[key]++
}

func (t *tally) strange(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.odd = append(t.odd, text)
}

// soak asks s at random for so long, and prints what the server's process holds every minute. Answers but those that a
// request deserves are an error.
func soak(ctx context.Context, s server, d time.Duration, pid int, seed uint64) error {
	models, err := modelNames(ctx, s)
	if err != nil {
		return err
	}
	fmt.Printf("seed %d, models %s\n", seed, strings.Join(models, ", "))
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	t := &tally{count: map[string]int{}}
	var group sync.WaitGroup
	for i := range soakClients {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			for ctx.Err() == nil {
				t.askAnything(ctx, s, models, rng)
			}
		})
	}
	watch(ctx, s, pid, t)
	group.Wait()
	time.Sleep(5 * time.Second) // what was cancelled leaves
	fmt.Println("at rest:", held(s, pid))
	for key, n := range t.count {
		fmt.Printf("%8d  %s\n", n, key)
	}
	if len(t.odd) > 0 {
		return fmt.Errorf("%d answers are not what their requests deserve; the first: %s", len(t.odd), t.odd[0])
	}
	return nil
}

// watch prints what the process holds until ctx ends.
func watch(ctx context.Context, s server, pid int, t *tally) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for begin := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			t.mu.Lock()
			n := 0
			for _, c := range t.count {
				n += c
			}
			t.mu.Unlock()
			fmt.Printf("%v: %d answers, %s\n", time.Since(begin).Round(time.Second), n, held(s, pid))
		}
	}
}

// held reports what the process holds: memory and open files from Linux, and what the server's metrics say about
// itself.
func held(s server, pid int) string {
	var out []string
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
		for line := range strings.Lines(string(status)) {
			if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				out = append(out, "memory "+strings.TrimSpace(v))
			}
		}
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		out = append(out, strconv.Itoa(len(files))+" files")
	}
	res, err := http.Get(s.url + "/metrics")
	if err != nil {
		return strings.Join(append(out, err.Error()), ", ")
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	for line := range strings.Lines(string(text)) {
		for _, name := range []string{"go_goroutines", "powerinfer_kv_cache_usage_ratio", "powerinfer_requests_running"} {
			if strings.HasPrefix(line, name) {
				out = append(out, strings.TrimSpace(line))
			}
		}
	}
	return strings.Join(out, ", ")
}

func modelNames(ctx context.Context, s server) ([]string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/models", nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var list struct{ Data []struct{ ID string } }
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil {
		return nil, err
	}
	var names []string
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	if len(names) == 0 {
		return nil, errors.New("the server has no models")
	}
	return names, nil
}

// anything returns a request at random, and whether it deserves an answer.
func anything(models []string, rng *rand.Rand) (path string, body []byte, good bool) {
	words := strings.Repeat("the old king and the youngest daughter ", 1+rng.IntN(12))[rng.IntN(30):]
	model, n, stream := models[rng.IntN(len(models))], 1+rng.IntN(60), rng.IntN(2) == 0
	messages := []map[string]string{{"role": "user", "content": words}}
	requests := []struct {
		path string
		body map[string]any
	}{
		{"/completion", map[string]any{"prompt": words, "n_predict": n, "stream": stream}},
		{"/v1/completions", map[string]any{"prompt": words, "max_tokens": n, "stream": stream}},
		{"/v1/chat/completions", map[string]any{"messages": messages, "max_tokens": n, "stream": stream}},
		{"/v1/chat/completions", map[string]any{"messages": messages, "max_tokens": n, "response_format": map[string]string{"type": "json_object"}}},
		{"/v1/responses", map[string]any{"input": words, "max_output_tokens": n, "stream": stream}},
		{"/v1/messages", map[string]any{"messages": messages, "max_tokens": n, "stream": stream}},
		{"/api/chat", map[string]any{"messages": messages, "options": map[string]int{"num_predict": n}, "stream": stream}},
		{"/v1/embeddings", map[string]any{"input": words}},
		{"/tokenize", map[string]any{"content": words}},
	}
	r := requests[rng.IntN(len(requests))]
	r.body["model"] = model
	text, err := json.Marshal(r.body)
	if err != nil {
		panic(err) // it holds texts and numbers only
	}
	if rng.IntN(6) > 0 {
		return r.path, text, true
	}
	switch rng.IntN(4) {
	case 0:
		text = text[:rng.IntN(len(text))]
	case 1:
		text = []byte(strings.Repeat(`{"messages":[`, 500))
	case 2:
		text = bytes.Replace(text, []byte("king"), []byte("\xff\xfe"), 1)
		text = append(text, 0xff)
	case 3:
		text = []byte(`{"model":"` + model + `","prompt":"a","input":"a","content":"a","messages":7,"max_tokens":1e99,"n_predict":-7,"temperature":"hot"}`)
	}
	return r.path, text, false
}

// askAnything sends a request, which some clients give up.
func (t *tally) askAnything(ctx context.Context, s server, models []string, rng *rand.Rand) {
	path, body, good := anything(models, rng)
	goes := rng.IntN(4) == 0
	if goes {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(400))*time.Millisecond)
		defer cancel()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, bytes.NewReader(body))
	if err != nil {
		t.strange(err.Error())
		return
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		if ctx.Err() == nil {
			t.strange(path + ": " + err.Error())
		}
		t.add(path + " given up")
		return
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	key := fmt.Sprintf("%s %d", path, res.StatusCode)
	switch {
	case err != nil && ctx.Err() != nil:
		key = path + " given up"
	case err != nil:
		t.strange(key + ": " + err.Error())
	case good && res.StatusCode != http.StatusOK && res.StatusCode != http.StatusServiceUnavailable,
		!good && (res.StatusCode < 400 || res.StatusCode >= 500) && res.StatusCode != http.StatusServiceUnavailable:
		t.strange(fmt.Sprintf("%s %s: %.300s", key, body[:min(len(body), 200)], text))
	}
	t.add(key)
}
