package task

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// readObjects reads JSON Lines, or an array of objects, and calls each with every object and its line.
func readObjects[T any](s *source, each func(line int, v *T) error) error {
	if bytes.TrimSpace(s.data)[0] == '[' {
		return readArray(s, each)
	}
	line := 0
	for row := range bytes.Lines(s.data) {
		line++
		if len(bytes.TrimSpace(row)) == 0 {
			continue
		}
		var v T
		if err := json.Unmarshal(row, &v); err != nil {
			return s.errorAt(line, "%w", plain(err))
		}
		if err := each(line, &v); err != nil {
			return s.errorAt(line, "%w", err)
		}
	}
	return nil
}

// plain returns an error of encoding/json without the names of Go's types.
func plain(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &wrong):
		return err
	case wrong.Field == "":
		return fmt.Errorf("there is a JSON %s where an object belongs", wrong.Value)
	}
	return fmt.Errorf("%s is a JSON %s, which does not belong there", wrong.Field, wrong.Value)
}

// readArray is readObjects for an array.
func readArray[T any](s *source, each func(line int, v *T) error) error {
	d := json.NewDecoder(bytes.NewReader(s.data))
	line, counted := 1, int64(0)
	at := func() int {
		to := d.InputOffset()
		line, counted = line+bytes.Count(s.data[counted:to], []byte("\n")), to
		return line
	}
	if _, err := d.Token(); err != nil {
		return s.errorAt(at(), "%w", err)
	}
	for d.More() {
		var v T
		line := at()
		if err := d.Decode(&v); err != nil {
			return s.errorAt(line, "%w", plain(err))
		}
		if err := each(line, &v); err != nil {
			return s.errorAt(line, "%w", err)
		}
	}
	if _, err := d.Token(); err != nil {
		return s.errorAt(at(), "the array does not end: %w", err)
	}
	return nil
}

// readRows reads CSV and calls each with every row with as many fields as the first.
func readRows(s *source, fields int, each func(line int, row []string) error) error {
	r := csv.NewReader(bytes.NewReader(s.data))
	r.FieldsPerRecord = fields
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if e := (*csv.ParseError)(nil); errors.As(err, &e) {
			return s.errorAt(e.Line, "%w", e.Err)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		line, _ := r.FieldPos(0)
		if err := each(line, row); err != nil {
			return s.errorAt(line, "%w", err)
		}
	}
}

// columns finds columns by their names in a first row.
func columns(header []string, names ...string) ([]int, error) {
	at := make([]int, len(names))
	for i, n := range names {
		at[i] = -1
		for j, h := range header {
			if strings.EqualFold(strings.TrimSpace(h), n) {
				at[i] = j
			}
		}
		if at[i] < 0 {
			return nil, fmt.Errorf("there is no column %q", n)
		}
	}
	return at, nil
}

// number is an answer's number, which some files store as a text.
type number int

func (n *number) UnmarshalJSON(b []byte) error {
	b = bytes.Trim(b, `"`)
	var i int
	if err := json.Unmarshal(b, &i); err != nil {
		return fmt.Errorf("%.40q is not the number of an answer", b)
	}
	*n = number(i)
	return nil
}
