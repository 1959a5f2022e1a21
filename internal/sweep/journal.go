package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
)

// journal is a file to which every measurement is appended at once, one JSON object per line. The first line describes
// the sweep. A killed process leaves complete lines and at most one incomplete line, which is cut off.
type journal struct {
	name string
	file *atomicfile.Lines
	done map[string]json.RawMessage // by key
}

// entry is a line of a journal after the first.
type entry struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

// openJournal opens the file called name, and continues it if it is of the same run.
func openJournal(name string, run map[string]string) (*journal, error) {
	f, err := atomicfile.OpenLines(name)
	if err != nil {
		return nil, err
	}
	j := &journal{name: name, file: f, done: map[string]json.RawMessage{}}
	if err := j.resume(run); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// resume reads what was measured, or writes the first line.
func (j *journal) resume(run map[string]string) error {
	line := 0
	for row := range bytes.Lines(j.file.Whole) {
		if line++; line == 1 {
			if err := sameRun(j.name, row, run); err != nil {
				return err
			}
			continue
		}
		var e entry
		if err := json.Unmarshal(row, &e); err != nil || e.Key == "" {
			return fmt.Errorf("%s: line %d is no measurement; remove the file to begin anew", j.name, line)
		}
		j.done[e.Key] = e.Value
	}
	const beginning = `{"` // an interrupted run may have written only a part of it
	if torn := string(j.file.Torn); line == 0 && !strings.HasPrefix(torn, beginning) && !strings.HasPrefix(beginning, torn) {
		return fmt.Errorf("%s holds no measurements; name another folder with -o", j.name)
	}
	if err := j.file.Cut(); err != nil || line > 0 {
		return err
	}
	return j.write(run)
}

// sameRun checks that a journal's first line says run.
func sameRun(name string, row []byte, run map[string]string) error {
	var was map[string]string
	if err := json.Unmarshal(row, &was); err != nil {
		return fmt.Errorf("%s: line 1 does not say what was measured; remove the file to begin anew", name)
	}
	for _, k := range slices.Sorted(maps.Keys(run)) {
		if was[k] != run[k] {
			return fmt.Errorf("%s is of another sweep (%s %q, not %q); name another folder with -o", name, k, was[k], run[k])
		}
	}
	return nil
}

// write writes a line, which is on the disk when it returns.
func (j *journal) write(v any) error {
	if err := j.file.Add(v); err != nil {
		return err
	}
	return j.file.Sync()
}

// has reports whether a measurement is there.
func (j *journal) has(key string) bool { return j.done[key] != nil }

// add adds a measurement.
func (j *journal) add(key string, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := j.write(entry{key, b}); err != nil {
		return err
	}
	j.done[key] = b
	return nil
}

// get reads a measurement into value, and reports whether it is there.
func (j *journal) get(key string, value any) (bool, error) {
	b := j.done[key]
	if b == nil {
		return false, nil
	}
	if err := json.Unmarshal(b, value); err != nil {
		return false, fmt.Errorf("%s: %s: %w; remove the file to begin anew", j.name, key, err)
	}
	return true, nil
}

func (j *journal) close() error { return j.file.Close() }
