package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/sample"
)

// batchPrompt is a line of batch's input. Names are llama.cpp's server's; what is nil is as the flags say.
type batchPrompt struct {
	ID               json.RawMessage `json:"id"` // text or number
	Prompt           string          `json:"prompt"`
	Predict          *int            `json:"n_predict"`
	Seed             *uint64         `json:"seed"`
	Temperature      *float32        `json:"temperature"`
	TopK             *int            `json:"top_k"`
	TopP             *float32        `json:"top_p"`
	MinP             *float32        `json:"min_p"`
	RepeatLastN      *int            `json:"repeat_last_n"`
	RepeatPenalty    *float32        `json:"repeat_penalty"`
	PresencePenalty  *float32        `json:"presence_penalty"`
	FrequencyPenalty *float32        `json:"frequency_penalty"`
	Stop             []string        `json:"stop"`
}

// apply changes o where p says so.
func (p *batchPrompt) apply(o *sample.Options) {
	set(&o.Seed, p.Seed)
	set(&o.Temperature, p.Temperature)
	set(&o.TopK, p.TopK)
	set(&o.TopP, p.TopP)
	set(&o.MinP, p.MinP)
	set(&o.RepeatLastN, p.RepeatLastN)
	set(&o.RepeatPenalty, p.RepeatPenalty)
	set(&o.PresencePenalty, p.PresencePenalty)
	set(&o.FrequencyPenalty, p.FrequencyPenalty)
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// readPrompts reads the lines of a batch. Empty ones are skipped.
func readPrompts(name, text string) (all []batchPrompt, err error) {
	seen := map[string]int{}
	line := 0
	for row := range strings.Lines(text) {
		line++
		if strings.TrimSpace(row) == "" {
			continue
		}
		p := batchPrompt{}
		d := json.NewDecoder(strings.NewReader(row))
		d.DisallowUnknownFields()
		if err := d.Decode(&p); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, line, err)
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: line %d: there is something behind the object", name, line)
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

// shard returns the prompts of a shard I/N: those that several machines must not answer twice differ in I. An id that the line
// number stands for is that of the whole file.
func shard(all []batchPrompt, name string) ([]batchPrompt, error) {
	first, of, _ := strings.Cut(name, "/")
	i, errI := strconv.Atoi(first)
	n, errN := strconv.Atoi(of)
	if errI != nil || errN != nil || i < 0 || i >= n {
		return nil, fmt.Errorf("--shard %q is not a shard such as 0/4, the first of four; the last of them is 3/4", name)
	}
	var mine []batchPrompt
	for at, p := range all {
		if at%n == i {
			mine = append(mine, p)
		}
	}
	return mine, nil
}

// batchAnswer is a line of batch's output.
type batchAnswer struct {
	ID           json.RawMessage `json:"id"`
	Text         *string         `json:"text,omitempty"`
	Stop         string          `json:"stop,omitempty"`
	PromptTokens int             `json:"prompt_tokens"`
	CachedTokens int             `json:"cached_tokens"`
	Tokens       int             `json:"tokens"`
	Error        string          `json:"error,omitempty"`
}

// answers is the output of a batch.
type answers struct {
	mu   sync.Mutex
	out  io.Writer
	file *os.File        // nil: out is standard output
	done map[string]bool // ids that were answered before
}

// openAnswers opens the file called name, behind whose last whole line answers are written; without a name they go to standard output. What
// an interrupted run left of a line is cut off.
func openAnswers(name string) (*answers, error) {
	if name == "" || name == "-" {
		return &answers{out: os.Stdout}, nil
	}
	old, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	a := &answers{done: map[string]bool{}}
	whole := bytes.LastIndexByte(old, '\n') + 1
	lines := bufio.NewScanner(bytes.NewReader(old[:whole]))
	lines.Buffer(nil, len(old)+1)
	for line := 1; lines.Scan(); line++ {
		var was batchAnswer
		if err := json.Unmarshal(lines.Bytes(), &was); err != nil || was.ID == nil {
			return nil, fmt.Errorf("%s: line %d is no answer of a batch; name another file", name, line)
		}
		a.done[string(was.ID)] = true
	}
	if a.file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666); err != nil {
		return nil, err
	}
	a.out = a.file
	if whole < len(old) && whole == 0 && old[0] != '{' {
		a.file.Close()
		return nil, fmt.Errorf("%s is no output of a batch; name another file", name)
	}
	if err := errors.Join(a.file.Truncate(int64(whole)), seekEnd(a.file)); err != nil {
		a.file.Close()
		return nil, err
	}
	return a, nil
}

func seekEnd(f *os.File) error {
	_, err := f.Seek(0, io.SeekEnd)
	return err
}

// write adds a line, in one piece.
func (a *answers) write(b *batchAnswer) error {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(b); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, err := a.out.Write(line.Bytes())
	return err
}

func (a *answers) close() error {
	if a.file == nil {
		return nil
	}
	return a.file.Close()
}
