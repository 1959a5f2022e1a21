package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
)

// Run names what samples were made of. Samples of another run are not continued.
type Run struct {
	Task    Kind              `json:"task"`
	Scoring Scoring           `json:"scoring,omitempty"`
	Model   string            `json:"model"`
	Data    string            `json:"data_sha256"`
	Options map[string]string `json:"options,omitempty"` // that change what comes out
}

// Fingerprint is the key in Run.Options that identifies the model's file and mode. An error about another run names it
// only if no other option differs.
const Fingerprint = "fingerprint"

// Sample is a line of a file of samples, in HumanEval's own form: its evaluator reads task_id and completion. The first
// line also has the run.
type Sample struct {
	Run        *Run         `json:"run,omitempty"`
	ID         string       `json:"task_id"`
	Try        int          `json:"try,omitempty"` // number of a program, from 0, among those for the same question
	Completion *string      `json:"completion,omitempty"`
	Choices    []Likelihood `json:"choices,omitempty"`
	Answer     Answer       `json:"answer,omitempty"`
}

// ReadSamples reads the complete lines of a file of samples. It also returns how many bytes these lines have.
func ReadSamples(name string, data []byte) (all []Sample, whole int, err error) {
	whole = bytes.LastIndexByte(data, '\n') + 1
	line := 0
	for row := range bytes.Lines(data[:whole]) {
		line++
		if len(bytes.TrimSpace(row)) == 0 {
			continue
		}
		var raw struct {
			Sample
			ID json.RawMessage `json:"task_id"` // MBPP's are numbers
		}
		if err := json.Unmarshal(row, &raw); err != nil {
			return nil, 0, fmt.Errorf("%s: line %d: %w", name, line, err)
		}
		if raw.ID == nil || string(raw.ID) == "null" || raw.Completion == nil && raw.Choices == nil {
			return nil, 0, fmt.Errorf("%s: line %d: a sample has task_id and completion", name, line)
		}
		s := raw.Sample
		if s.ID = string(raw.ID); json.Unmarshal(raw.ID, &s.ID) != nil {
			s.ID = string(raw.ID)
		}
		all = append(all, s)
	}
	return all, whole, nil
}

// Samples is a file to which samples are added.
type Samples struct {
	Done []Sample // that were there
	Torn int      // bytes of an incomplete line that an interrupted run left; they were cut off
	mu   sync.Mutex
	file *atomicfile.Lines // nil: nothing is kept
	run  *Run              // for the first line; nil when it is written
}

// CheckSamples returns an error if the file called name is not a regular file or cannot be written. It changes nothing.
func CheckSamples(name string) error {
	if name == "" {
		return nil
	}
	return atomicfile.CheckLines(name)
}

// OpenSamples opens the file called name, and continues it if it is of the same run. What an interrupted run left of a
// line is cut off. Without a name samples are not kept.
func OpenSamples(name string, run Run) (*Samples, error) {
	s := &Samples{run: &run}
	if name == "" {
		return s, nil
	}
	var err error
	if s.file, err = atomicfile.OpenLines(name); err != nil {
		return nil, err
	}
	if err := s.resume(name, run); err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	return s, nil
}

// resume reads the file called name, and cuts it after its last complete line.
func (s *Samples) resume(name string, run Run) error {
	all, _, err := ReadSamples(name, s.file.Whole)
	if err != nil {
		return fmt.Errorf("%w; mend it, or name another file", err)
	}
	const beginning = `{"run":{` // an interrupted run may have written a part of it
	if torn := string(s.file.Torn); len(s.file.Whole) == 0 && !strings.HasPrefix(torn, beginning) && !strings.HasPrefix(beginning, torn) {
		return fmt.Errorf("%s is no file of samples; name another file", name)
	}
	if len(all) > 0 {
		switch was := all[0].Run; {
		case was == nil:
			return fmt.Errorf("%s: line 1 does not say which run it is of; name another file", name)
		case !reflect.DeepEqual(*was, run):
			return fmt.Errorf("%s: line 1: the samples are of another run (%s); name another file", name, was.difference(run))
		}
		s.run = nil
	}
	s.Done, s.Torn = all, len(s.file.Torn)
	return s.file.Cut()
}

// difference describes the first difference between r and now.
func (r *Run) difference(now Run) string {
	switch {
	case r.Task != now.Task || r.Scoring != now.Scoring:
		return fmt.Sprintf("of the task %s, scoring %q", r.Task, r.Scoring)
	case r.Model != now.Model:
		return "of the model " + r.Model
	case r.Data != now.Data:
		return "with other data"
	}
	all := slices.Sorted(maps.Keys(now.Options))
	all = append(all, slices.Sorted(maps.Keys(r.Options))...)
	all = slices.DeleteFunc(all, func(k string) bool { return r.Options[k] == now.Options[k] })
	k := Fingerprint
	if i := slices.IndexFunc(all, func(k string) bool { return k != Fingerprint }); i >= 0 {
		k = all[i]
	}
	const short = 40
	if was, is := r.Options[k], now.Options[k]; len(was) <= short && len(is) <= short {
		return fmt.Sprintf("with %s %q, not %q", k, was, is)
	}
	return "with another " + k
}

// Add writes a sample, in one piece.
func (s *Samples) Add(v Sample) error {
	if s.file == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v.Run = s.run
	err := s.file.Add(v)
	if err == nil {
		s.run = nil
	}
	return err
}

// Close closes the file.
func (s *Samples) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
