package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// journal is a file to which every measurement is added as soon as it is there, a JSON object on each line. The first
// line says what is measured. A process that was killed leaves whole lines and at most the beginning of one, which is
// cut off.
type journal struct {
	file *os.File
	done map[string]json.RawMessage // by key
}

// entry is a line of a journal behind the first.
type entry struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

// openJournal opens the file called name, and continues it if it is of the same run.
func openJournal(name string, run map[string]string) (*journal, error) {
	old, err := wholefile.Read(name, wholefile.Text)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	j := &journal{done: map[string]json.RawMessage{}}
	whole := bytes.LastIndexByte(old, '\n') + 1
	line := 0
	for row := range bytes.Lines(old[:whole]) {
		if line++; line == 1 {
			if err := sameRun(name, row, run); err != nil {
				return nil, err
			}
			continue
		}
		var e entry
		if err := json.Unmarshal(row, &e); err != nil || e.Key == "" {
			return nil, fmt.Errorf("%s: line %d is no measurement; remove the file to begin anew", name, line)
		}
		j.done[e.Key] = e.Value
	}
	if j.file, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666); err != nil {
		return nil, err
	}
	_, seek := j.file.Seek(int64(whole), io.SeekStart)
	err = errors.Join(j.file.Truncate(int64(whole)), seek)
	if err == nil && whole == 0 {
		err = j.write(run)
	}
	if err != nil {
		j.file.Close()
		return nil, err
	}
	return j, nil
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
	b, err := json.Marshal(v)
	if err == nil {
		_, err = j.file.Write(append(b, '\n'))
	}
	if err == nil {
		err = j.file.Sync()
	}
	return err
}

// has reports whether a measurement is there.
func (j *journal) has(key string) bool { return j.done[key] != nil }

// add adds a measurement.
func (j *journal) add(key string, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	j.done[key] = b
	return j.write(entry{key, b})
}

// get reads a measurement into value, and reports whether it is there.
func (j *journal) get(key string, value any) (bool, error) {
	b := j.done[key]
	if b == nil {
		return false, nil
	}
	if err := json.Unmarshal(b, value); err != nil {
		return false, fmt.Errorf("%s: %s: %w; remove the file to begin anew", j.file.Name(), key, err)
	}
	return true, nil
}

func (j *journal) close() error { return j.file.Close() }
