package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
)

// record holds the answers of one binary. Its file has header lines, "# key: value", and a line a case: name, tab,
// value.
type record struct {
	header  []field
	answers []answer
}

type field struct{ key, value string }

type answer struct{ name, value string }

// Keys of header lines that decide which records can be compared.
const (
	processorKey = "instruction sets"
	driverKey    = "vulkan"
)

func (r *record) field(key string) string {
	for _, f := range r.header {
		if f.key == key {
			return f.value
		}
	}
	return ""
}

func (r *record) write(path string) error {
	return atomicfile.Write(path, atomicfile.Begins("a record", "# ").Public(), func(f *atomicfile.File) error {
		w := bufio.NewWriter(f)
		for _, h := range r.header {
			fmt.Fprintf(w, "# %s: %s\n", h.key, h.value)
		}
		for _, a := range r.answers {
			fmt.Fprintf(w, "%s\t%s\n", a.name, a.value)
		}
		return w.Flush()
	})
}

func read(path string) (*record, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := &record{}
	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		if text, ok := strings.CutPrefix(line, "# "); ok {
			key, value, _ := strings.Cut(text, ": ")
			r.header = append(r.header, field{key, value})
			continue
		}
		name, value, ok := strings.Cut(line, "\t")
		if !ok {
			return nil, fmt.Errorf("%s:%d: the line is no case of a record", path, i+1)
		}
		r.answers = append(r.answers, answer{name, value})
	}
	return r, nil
}

// differences describes each case of r that newer lacks or answers otherwise. Cases that only newer has are new, and no
// difference. Records of different processors or drivers, or with nothing to compare, are an error.
func (r *record) differences(newer *record) ([]string, error) {
	for _, key := range []string{processorKey, driverKey} {
		if a, b := r.field(key), newer.field(key); a != b {
			return nil, fmt.Errorf("the records' %s differ (%q and %q), and bytes depend on them; record both binaries on one machine", key, a, b)
		}
	}
	if len(r.answers) == 0 {
		return nil, errors.New("the old record has no such case")
	}
	now := map[string]string{}
	for _, a := range newer.answers {
		now[a.name] = a.value
	}
	var out []string
	for _, a := range r.answers {
		value, ok := now[a.name]
		switch {
		case !ok:
			out = append(out, a.name+": not in the new record")
		case value != a.value:
			out = append(out, fmt.Sprintf("%s:\n  old: %s\n  new: %s", a.name, a.value, value))
		}
	}
	return out, nil
}
