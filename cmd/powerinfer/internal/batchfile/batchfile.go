// Package batchfile reads the lines of a batch, and writes its answers.
package batchfile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

// Prompt is a line of batch's input, in the names of llama-server's API. The flags decide for nil fields.
type Prompt struct {
	ID       json.RawMessage `json:"id"` // text or number
	Prompt   string          `json:"prompt"`
	Predict  *int            `json:"n_predict"`
	Stop     []string        `json:"stop"`
	NoEnd    *bool           `json:"ignore_eos"`
	Grammar  string          `json:"grammar"`
	Schema   json.RawMessage `json:"json_schema"`
	Samplers json.RawMessage `json:"samplers"`   // list of names, or a text of letters
	Bias     json.RawMessage `json:"logit_bias"` // see sample.AddBiases
	Seed     *int64          `json:"seed"`
	Breakers *[]string       `json:"dry_sequence_breakers"`

	numbers map[string]float64 // of sampling, by sample.Number.JSON
}

// Generation returns usual with p's changes.
func (p *Prompt) Generation(usual powerinfer.Generation, m *powerinfer.Model) (powerinfer.Generation, error) {
	g, s := usual, *usual.Sampling
	g.Sampling = &s
	if p.Predict != nil {
		g.Max = flags.MostTokens(*p.Predict)
	}
	g.Stop = p.Stop
	if p.Grammar != "" || p.Schema != nil {
		g.Grammar, g.Schema = p.Grammar, string(p.Schema)
	}
	if p.Seed != nil {
		s.Seed = powerinfer.RandomSeed
		if *p.Seed >= 0 {
			s.Seed = uint64(*p.Seed)
		}
	}
	for _, n := range sample.Numbers() {
		if v, ok := p.numbers[n.JSON]; ok {
			n.Set(&s, v, m.Info().Context)
		}
	}
	if p.Breakers != nil {
		s.DRY.Breakers = *p.Breakers
	}
	if p.Samplers != nil {
		var err error
		if s.Samplers, err = sample.ReadSamplers(p.Samplers); err != nil {
			return g, fmt.Errorf("samplers cannot be read: %w", err)
		}
	}
	s.LogitBias = maps.Clone(s.LogitBias)
	if s.LogitBias == nil {
		s.LogitBias = map[int32]float32{}
	}
	if p.NoEnd != nil {
		g.IgnoreEnd = *p.NoEnd
		maps.DeleteFunc(s.LogitBias, func(id int32, _ float32) bool { return m.EndOfText(id) })
		if g.IgnoreEnd {
			flags.BanEnds(s.LogitBias, m.Info().Vocabulary, m.EndOfText)
		}
	}
	if p.Bias != nil {
		if err := sample.AddBiases(s.LogitBias, p.Bias, func(text string) []int32 { return m.Tokenize(text, false, true) }); err != nil {
			return g, fmt.Errorf("logit_bias cannot be read: %w", err)
		}
	}
	return g, nil
}

// decode reads a line's object.
func (p *Prompt) decode(fields map[string]json.RawMessage) error {
	p.numbers = map[string]float64{}
	for _, n := range sample.Numbers() {
		var o powerinfer.Sampling
		raw, ok := fields[n.JSON]
		if delete(fields, n.JSON); !ok || string(raw) == "null" {
			continue
		}
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](json.Unmarshal(raw, n.Of(&o))); ok {
			return fmt.Errorf("%s cannot be a JSON %s", n.JSON, wrong.Value)
		}
		p.numbers[n.JSON] = n.Get(&o)
	}
	rest, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(rest))
	d.DisallowUnknownFields()
	return d.Decode(p)
}

// Read reads the lines of a batch. Empty ones are skipped.
func Read(name, text string) (all []Prompt, err error) {
	seen := map[string]int{}
	line := 0
	for row := range strings.Lines(text) {
		line++
		if strings.TrimSpace(row) == "" {
			continue
		}
		p := Prompt{}
		d := json.NewDecoder(strings.NewReader(row))
		var fields map[string]json.RawMessage
		err := d.Decode(&fields)
		if err == nil {
			err = p.decode(fields)
		}
		if err != nil {
			if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // its text names Go's types
				err = fmt.Errorf("there is a JSON %s where an object belongs", wrong.Value)
				if wrong.Field != "" {
					err = fmt.Errorf("%s cannot be a JSON %s", wrong.Field, wrong.Value)
				}
			}
			return nil, fmt.Errorf("%s: line %d: %w; docs/batch.md says what a line holds", name, line, err)
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: line %d: there is more than one object", name, line)
		}
		for _, raw := range []*json.RawMessage{&p.ID, &p.Schema, &p.Samplers, &p.Bias} {
			if string(*raw) == "null" { // as if it were absent
				*raw = nil
			}
		}
		if p.ID == nil {
			p.ID = json.RawMessage(strconv.Itoa(line))
		}
		if c := p.ID[0]; c != '"' && c != '-' && (c < '0' || c > '9') {
			return nil, fmt.Errorf("%s: line %d: id %s is neither a text nor a number", name, line, p.ID)
		}
		if p.Prompt == "" {
			return nil, fmt.Errorf("%s: line %d: there is no prompt", name, line)
		}
		if before := seen[string(p.ID)]; before > 0 {
			return nil, fmt.Errorf("%s: lines %d and %d both have id %s", name, before, line, p.ID)
		}
		seen[string(p.ID)] = line
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s holds no prompts", name)
	}
	return all, nil
}

// Shard returns the prompts of shard I/N: every N-th prompt from number I on. Machines with different I answer
// different prompts. If a prompt has no id, its line number in the whole file is its id.
func Shard(all []Prompt, name string) ([]Prompt, error) {
	first, of, _ := strings.Cut(name, "/")
	i, errI := strconv.Atoi(first)
	n, errN := strconv.Atoi(of)
	if errI != nil || errN != nil || i < 0 || i >= n {
		return nil, fmt.Errorf("--shard %q is not a shard such as 0/4, the first of four; the last of them is 3/4", name)
	}
	var mine []Prompt
	for at, p := range all {
		if at%n == i {
			mine = append(mine, p)
		}
	}
	return mine, nil
}

// Answer is a line of batch's output.
type Answer struct {
	ID           json.RawMessage `json:"id"`
	Text         *string         `json:"text,omitempty"`
	Stop         string          `json:"stop,omitempty"`
	PromptTokens int             `json:"prompt_tokens"`
	CachedTokens int             `json:"cached_tokens"`
	Tokens       int             `json:"tokens"`
	Error        string          `json:"error,omitempty"`
}

// Answers is the output of a batch: a file of lines, or a stream.
type Answers struct {
	file   *atomicfile.Lines // nil: the output is a stream
	mu     sync.Mutex
	stream io.WriteCloser
	done   map[string]bool // ids that were answered before
}

// Create opens the output called name. It appends answers to a file after its last whole line, and cuts off an
// incomplete line of an interrupted run. Pipes, devices and standard output, the default, are streams.
func Create(ctx context.Context, name string) (*Answers, error) {
	stream, err := openStream(ctx, name)
	if stream != nil || err != nil {
		return &Answers{stream: stream}, err
	}
	f, err := atomicfile.OpenLines(name)
	if err != nil {
		return nil, err
	}
	a := &Answers{file: f, done: map[string]bool{}}
	if err := a.resume(name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return a, nil
}

// resume reads which prompts the file has answers to.
func (a *Answers) resume(name string) error {
	line := 0
	for row := range bytes.Lines(a.file.Whole) {
		line++
		var was Answer
		if err := json.Unmarshal(row, &was); err != nil || was.ID == nil {
			return fmt.Errorf("%s: line %d is no answer of a batch; name another file", name, line)
		}
		a.done[string(was.ID)] = true
	}
	torn := a.file.Torn
	if len(torn) == 0 {
		return nil
	}
	const beginning = `{"id":` // an interrupted run may have written a part of it
	if !strings.HasPrefix(string(torn), beginning) && !strings.HasPrefix(beginning, string(torn)) {
		return fmt.Errorf("%s: line %d is no answer of a batch; name another file", name, line+1)
	}
	screen.NoteTorn(len(torn), name)
	return a.file.Cut()
}

// Has reports whether p was answered before.
func (a *Answers) Has(p *Prompt) bool { return a.done[string(p.ID)] }

// Write adds a line, in one piece.
func (a *Answers) Write(b *Answer) error {
	if a.file != nil {
		return a.file.Add(b)
	}
	line, err := atomicfile.Line(b)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, err = a.stream.Write(line)
	return err
}

// Close closes the output, unless it is a stream of the process.
func (a *Answers) Close() error {
	if a.file != nil {
		return a.file.Close()
	}
	return a.stream.Close()
}

// kept is a stream of the process. Close leaves it open.
type kept struct{ io.Writer }

func (kept) Close() error { return nil }

// openStream opens an output that is not a regular file: standard output or standard error by one of its names, a pipe
// or a device. Without a name it is standard output. It returns nil for a regular file, which may not exist yet. It
// waits for a pipe's reader until ctx ends.
func openStream(ctx context.Context, name string) (io.WriteCloser, error) {
	switch name {
	case "", "-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1": // by name: a socket cannot be opened
		return kept{screen.Out}, nil
	case "/dev/stderr", "/dev/fd/2", "/proc/self/fd/2":
		return kept{screen.Err}, nil
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().IsRegular() {
		return nil, nil
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s is a folder; name a file in it", name)
	}
	type opened struct {
		file *os.File
		err  error
	}
	done := make(chan opened, 1)
	go func() {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		done <- opened{f, err}
	}()
	select {
	case o := <-done:
		if o.err != nil {
			return nil, o.err
		}
		return o.file, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
