package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/gofrs/flock"

	"github.com/powerinfer-go/powerinfer/internal/wholefile"
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
// only where no other option differs.
const Fingerprint = "fingerprint"

// Sample is a line of a file of samples, of HumanEval's own form: its evaluator reads task_id and completion. The first
// line has the run besides.
type Sample struct {
	Run        *Run         `json:"run,omitempty"`
	ID         string       `json:"task_id"`
	Try        int          `json:"try,omitempty"` // number of a program, from 0 on, of those for the same question
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
	mu   sync.Mutex
	file *os.File     // nil: nothing is kept
	lock *flock.Flock // of the file; nil on Windows, where it would keep us from reading
	run  *Run         // for the first line; nil when it is written
}

// CheckSamples returns an error if the file called name is not a regular file or cannot be written. It changes nothing.
func CheckSamples(name string) error {
	if name == "" {
		return nil
	}
	info, err := os.Stat(name)
	var f *os.File
	switch {
	case errors.Is(err, fs.ErrNotExist): // not made here, since others may wait for it
		if f, err = os.CreateTemp(filepath.Dir(name), ".powerinfer-*"); err != nil {
			return fmt.Errorf("%s cannot be written: %w", name, err)
		}
		return errors.Join(f.Close(), os.Remove(f.Name()))
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file, to which samples are added; name another file", name)
	}
	if f, err = os.OpenFile(name, os.O_WRONLY, 0); err != nil {
		return err
	}
	return f.Close()
}

// lockSamples keeps other runs from writing to the file called name, which it makes.
func lockSamples(name string) (*flock.Flock, error) {
	if runtime.GOOS == "windows" {
		return nil, nil
	}
	lock := flock.New(name, flock.SetPermissions(0o666))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, err
	}
	if !locked {
		return nil, fmt.Errorf("another run is writing to %s; wait for it, or name another file", name)
	}
	return lock, nil
}

// OpenSamples opens the file called name, and continues it if it is of the same run. What an interrupted run left of a
// line is cut off. Without a name samples are not kept.
func OpenSamples(name string, run Run) (*Samples, error) {
	s := &Samples{run: &run}
	if name == "" {
		return s, nil
	}
	if err := CheckSamples(name); err != nil {
		return nil, err
	}
	var err error
	if s.lock, err = lockSamples(name); err != nil {
		return nil, err
	}
	if err := s.open(name, run); err != nil {
		return nil, errors.Join(err, s.unlock())
	}
	return s, nil
}

// open reads the locked file called name and positions it behind its last complete line.
func (s *Samples) open(name string, run Run) error {
	old, err := wholefile.Read(name, wholefile.Text)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	all, whole, err := ReadSamples(name, old)
	if err != nil {
		return fmt.Errorf("%w; mend it, or name another file", err)
	}
	const beginning = `{"run":{` // of which an interrupted run may have written a part
	if whole == 0 && !strings.HasPrefix(string(old), beginning) && !strings.HasPrefix(beginning, string(old)) {
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
	s.Done = all
	if s.file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666); err != nil {
		return err
	}
	_, seek := s.file.Seek(int64(whole), io.SeekStart)
	if err := errors.Join(s.file.Truncate(int64(whole)), seek); err != nil {
		s.file.Close()
		return err
	}
	return nil
}

func (s *Samples) unlock() error {
	if s.lock == nil {
		return nil
	}
	return s.lock.Unlock()
}

// difference describes the first respect in which r differs from now.
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	v.Run = s.run
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	if _, err := s.file.Write(line.Bytes()); err != nil {
		return err
	}
	s.run = nil
	return nil
}

// Close closes the file.
func (s *Samples) Close() error {
	if s.file == nil {
		return nil
	}
	return errors.Join(s.file.Close(), s.unlock())
}
