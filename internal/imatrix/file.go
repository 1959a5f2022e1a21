package imatrix

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// Keys and suffixes of the form that is a GGUF file.
const (
	keyType        = "general.type"
	typeMatrix     = "imatrix"
	keyDatasets    = "imatrix.datasets"
	keyChunks      = "imatrix.chunk_count"
	keyChunkTokens = "imatrix.chunk_size"
	suffixSums     = ".in_sum2"
	suffixCounts   = ".counts"
)

// mostBytes bounds a file. The matrix of a model of 671 billion parameters has less than 1 GiB.
const mostBytes = 4 * wholefile.Text

// Open reads a file of either form.
func Open(path string) (*Matrix, error) {
	b, err := wholefile.Read(path, mostBytes)
	if err != nil {
		return nil, err
	}
	return Parse(path, b)
}

// Parse reads a file's bytes; path is for errors.
func Parse(path string, b []byte) (*Matrix, error) {
	parse := parseOlder
	if strings.HasPrefix(string(b), "GGUF") {
		parse = parseGGUF
	}
	m, err := parse(path, b)
	if err != nil {
		return nil, err
	}
	if len(m.Entries) == 0 {
		return nil, fmt.Errorf("%s: the importance matrix has no entries", path)
	}
	for _, name := range m.Names() {
		if err := m.Entries[name].check(); err != nil {
			return nil, fmt.Errorf("%s: entry %q: %w; the file is damaged", path, name, err)
		}
	}
	return m, nil
}

func parseGGUF(path string, b []byte) (*Matrix, error) {
	f, err := gguf.Parse(path, b)
	if err != nil {
		return nil, err
	}
	m := New(0)
	datasets, ok1, err1 := f.Strings(keyDatasets)
	chunks, ok2, err2 := f.Uint(keyChunks)
	tokens, ok3, err3 := f.Uint(keyChunkTokens)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	if !ok1 || !ok2 || !ok3 || chunks > math.MaxInt32 || tokens > math.MaxInt32 {
		return nil, fmt.Errorf("%s: not an importance matrix: %s, %s and %s are missing or too large", path, keyDatasets, keyChunks, keyChunkTokens)
	}
	m.Datasets, m.Chunks, m.ChunkTokens = datasets, int(chunks), int(tokens)
	for _, t := range f.Tensors {
		name, ok := strings.CutSuffix(t.Name, suffixSums)
		if !ok {
			continue
		}
		counts := f.Tensor(name + suffixCounts)
		if counts == nil || counts.Type != quant.F32 || t.Type != quant.F32 {
			return nil, fmt.Errorf("%s: entry %q: sums and counts of F32 must both be there", path, name)
		}
		e := &Entry{Sums: make([]float32, t.Elems()), Counts: make([]int64, counts.Elems())}
		quant.Decode(quant.F32, e.Sums, t.Data)
		floats := make([]float32, counts.Elems())
		quant.Decode(quant.F32, floats, counts.Data)
		for i, v := range floats {
			if !(math.Abs(float64(v)) < 1<<62) {
				return nil, fmt.Errorf("%s: entry %q: a count is %g; the file is damaged", path, name, v)
			}
			e.Counts[i] = int64(math.Round(float64(v)))
		}
		m.Entries[name] = e
	}
	return m, nil
}

// older reads the older form, whose numbers are little-endian.
type older struct {
	path string
	b    []byte
	err  error
}

// take returns the next n bytes; none when the file ends before.
func (r *older) take(n int, what string) []byte {
	if r.err == nil && (n < 0 || n > len(r.b)) {
		r.err = fmt.Errorf("%s: the file ends in %s; it is no importance matrix, or cut off", r.path, what)
	}
	if r.err != nil {
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *older) number(what string) int {
	b := r.take(4, what)
	if b == nil {
		return 0
	}
	return int(int32(binary.LittleEndian.Uint32(b)))
}

// parseOlder: the number of entries; for each the length of its name, the name, how often it was called, the number of
// values, and the values, which are the mean squares times the number of calls. The number of chunks and a data set's
// name may follow.
func parseOlder(path string, b []byte) (*Matrix, error) {
	r := &older{path: path, b: b}
	m := New(0)
	n := r.number("the number of entries")
	for i := 0; i < n && r.err == nil; i++ {
		name := string(r.take(r.number("a name's length"), "a name"))
		calls := r.number("a number of calls")
		count := r.number("a number of values")
		if r.err == nil && (count < 1 || count > len(r.b)/4) {
			r.err = fmt.Errorf("%s: entry %q: %d values; it is no importance matrix, or cut off", path, name, count)
		}
		values := r.take(4*count, "an entry's values")
		if r.err != nil {
			break
		}
		if m.Entries[name] != nil {
			return nil, fmt.Errorf("%s: entry %q is there twice", path, name)
		}
		e := &Entry{Sums: make([]float32, count), Counts: []int64{max(1, int64(calls))}}
		quant.Decode(quant.F32, e.Sums, values)
		m.Entries[name] = e
	}
	if r.err == nil && len(r.b) > 0 {
		m.Chunks = max(0, r.number("the number of chunks"))
		if name := r.take(r.number("a data set's length"), "a data set's name"); len(name) > 0 {
			m.Datasets = []string{string(name)}
		}
	}
	return m, r.err
}

// Write writes the form that is a GGUF file; it appears when it is complete.
func (m *Matrix) Write(ctx context.Context, path string) error {
	keys := []gguf.KV{
		{Key: keyType, Value: typeMatrix},
		{Key: keyDatasets, Value: slices.Concat([]string{}, m.Datasets)},
		{Key: keyChunks, Value: uint32(m.Chunks)},
		{Key: keyChunkTokens, Value: uint32(m.ChunkTokens)},
	}
	var tensors []gguf.Source
	add := func(name string, shape []int, x []float32) {
		tensors = append(tensors, gguf.Source{Name: name, Type: quant.F32, Shape: shape, Write: func(w io.Writer) error {
			b := make([]byte, 4*len(x))
			quant.Encode(quant.F32, b, x)
			_, err := w.Write(b)
			return err
		}})
	}
	for _, name := range m.Names() {
		e := m.Entries[name]
		counts := make([]float32, len(e.Counts))
		for i, n := range e.Counts {
			counts[i] = float32(n)
		}
		add(name+suffixSums, []int{e.cols(), len(counts)}, e.Sums)
		add(name+suffixCounts, []int{1, len(counts)}, counts)
	}
	return gguf.Create(ctx, path, "GGUF", keys, tensors, nil)
}

// OlderKind is the kind of files in the older form. They have no magic: they begin with the number of tensors, then the
// first name's length and the name.
func OlderKind() atomicfile.Kind {
	return atomicfile.Matches("an importance matrix in the older form", `(?s)^..[\x00-\x0f]\x00.[\x00-\x03]\x00\x00[a-zA-Z_]+\.[ -~]*\.weight`).Public()
}

// WriteOlder writes the older form, in which a tensor has one number of calls for all its matrices. The file appears
// when it is complete.
func (m *Matrix) WriteOlder(path string) error {
	var b []byte
	number := func(n int) { b = binary.LittleEndian.AppendUint32(b, uint32(int32(n))) }
	text := func(s string) {
		number(len(s))
		b = append(b, s...)
	}
	var names []string
	for _, name := range m.Names() {
		if e := m.Entries[name]; e.Missing() < len(e.Counts) {
			names = append(names, name)
		}
	}
	number(len(names))
	for _, name := range names {
		e := m.Entries[name]
		calls := 1
		if m.ChunkTokens > 0 {
			calls = int((slices.Max(e.Counts) + int64(m.ChunkTokens) - 1) / int64(m.ChunkTokens))
		}
		text(name)
		number(calls)
		number(len(e.Sums))
		for _, v := range e.Mean() {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v*float32(calls)))
		}
	}
	number(m.Chunks)
	dataset := ""
	if n := len(m.Datasets); n > 0 {
		dataset = m.Datasets[n-1]
	}
	text(dataset)
	return atomicfile.Write(path, OlderKind(), func(f *atomicfile.File) error {
		_, err := f.Write(b)
		return err
	})
}
