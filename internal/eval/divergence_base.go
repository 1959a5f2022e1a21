package eval

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
)

// Base is a file of a model's log-probabilities over a text, in the form of llama.cpp's --kl-divergence-base; it is
// read once, row by row. Little endian, as llama.cpp writes it:
//
//	"_logits_", n_ctx i32, n_vocab i32, n_chunk i32, tokens i32 [n_chunk, n_ctx],
//	then a row for every prediction of the second half of every chunk [n_chunk, n_ctx−1−n_ctx/2]:
//	scale f32, min f32, steps u16 [n_vocab, padded to even]: log-probability = min + scale·step
//
// Source: tools/perplexity/perplexity.cpp of llama.cpp.
type Base struct {
	Path    string
	Context int // tokens of a chunk
	Vocab   int // log-probabilities of a row
	Chunks  int
	Tokens  []int32 // [Chunks·Context]

	file *os.File
	r    *bufio.Reader
	raw  []byte // one row
	row  int    // rows read
}

const (
	baseMagic  = "_logits_"
	baseHeader = len(baseMagic) + 3*4
	maxContext = 1 << 30
	maxVocab   = 1 << 28
	// floor is how far below the most likely token log-probabilities are stored; lower ones are stored as the floor.
	floor = 16
	steps = math.MaxUint16
)

// rowBytes returns the stored size of one row of n_vocab log-probabilities.
func rowBytes(vocab int) int { return 2*4 + 2*(vocab+vocab%2) }

// predictions returns how many rows a chunk has: the first half is context, the last token has no successor.
func predictions(context int) int { return context - 1 - context/2 }

// chunkBytes returns the stored size of one chunk, its tokens and its rows: at the greatest context and vocabulary less
// than 2³² + 2²⁹·2³⁰.
func chunkBytes(context, vocab int) int64 {
	return 4*int64(context) + int64(predictions(context))*int64(rowBytes(vocab))
}

// OpenBase opens and validates path: counts against the file's size, token ids against the vocabulary.
func OpenBase(path string) (*Base, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // opening a pipe waits for its writer
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	b := &Base{Path: path, file: f, r: bufio.NewReaderSize(f, 1<<20)}
	if err := b.header(); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

func (b *Base) header() error {
	info, err := b.file.Stat()
	if err != nil {
		return err
	}
	var head [baseHeader]byte
	if _, err := io.ReadFull(b.r, head[:]); err != nil || string(head[:len(baseMagic)]) != baseMagic {
		return fmt.Errorf("offset 0: not a file of log-probabilities (it does not begin with %q)", baseMagic)
	}
	field := func(i int) int { return int(int32(binary.LittleEndian.Uint32(head[len(baseMagic)+4*i:]))) }
	b.Context, b.Vocab, b.Chunks = field(0), field(1), field(2)
	switch {
	case b.Context < leastContext || b.Context > maxContext:
		return fmt.Errorf("offset 8: a context of %d tokens is outside %d…%d", b.Context, leastContext, maxContext)
	case b.Vocab < 1 || b.Vocab > maxVocab:
		return fmt.Errorf("offset 12: a vocabulary of %d is outside 1…%d", b.Vocab, maxVocab)
	case b.Chunks < 1:
		return fmt.Errorf("offset 16: %d chunks", b.Chunks)
	}
	chunk := chunkBytes(b.Context, b.Vocab)
	if left := info.Size() - int64(baseHeader); left%chunk != 0 || left/chunk != int64(b.Chunks) {
		return fmt.Errorf("offset 16: %d chunks of %d bytes do not fill the %d bytes that follow; the file is truncated or damaged", b.Chunks, chunk, left)
	}
	b.Tokens = make([]int32, b.Chunks*b.Context)
	if err := binary.Read(b.r, binary.LittleEndian, b.Tokens); err != nil {
		return fmt.Errorf("offset %d: %w", baseHeader, err)
	}
	for i, t := range b.Tokens {
		if t < 0 || int(t) >= b.Vocab {
			return fmt.Errorf("offset %d: token %d is not in the vocabulary of %d", baseHeader+4*i, t, b.Vocab)
		}
	}
	b.raw = make([]byte, rowBytes(b.Vocab))
	return nil
}

// next reads the next row's log-probabilities into dst [Vocab].
func (b *Base) next(dst []float32) error {
	fail := func(format string, args ...any) error {
		at := int64(baseHeader) + 4*int64(len(b.Tokens)) + int64(b.row)*int64(len(b.raw))
		return fmt.Errorf("%s: offset %d: row %d: %s", b.Path, at, b.row, fmt.Sprintf(format, args...))
	}
	if _, err := io.ReadFull(b.r, b.raw); err != nil {
		return fail("%v", err)
	}
	scale := math.Float32frombits(binary.LittleEndian.Uint32(b.raw))
	least := math.Float32frombits(binary.LittleEndian.Uint32(b.raw[4:]))
	// Probabilities are at most 1, up to the rounding of scale and min.
	const slack = 1e-3
	if !(scale >= 0 && scale <= 1) || !finite(least) || least+scale*steps > slack {
		return fail("scale %g and minimum %g give no log-probabilities", scale, least)
	}
	for i := range dst {
		dst[i] = least + scale*float32(binary.LittleEndian.Uint16(b.raw[8+2*i:]))
	}
	b.row++
	return nil
}

func finite(v float32) bool { return !math.IsNaN(float64(v)) && !math.IsInf(float64(v), 0) }

// Close closes the file.
func (b *Base) Close() error { return b.file.Close() }

// baseWriter writes a Base that appears under its name when it is committed.
type baseWriter struct {
	path string
	file *atomicfile.File
	w    *bufio.Writer
	raw  []byte // one row
}

// BaseKind is the kind of files of log-probabilities.
func BaseKind() atomicfile.Kind {
	return atomicfile.Begins("a file of log-probabilities", baseMagic)
}

// createBase begins a file; tokens [chunks·context].
func createBase(path string, context, vocab int, tokens []int32) (*baseWriter, error) {
	f, err := atomicfile.Create(path, BaseKind())
	if err != nil {
		return nil, err
	}
	chunks := len(tokens) / context
	if err := f.Room(int64(baseHeader) + int64(chunks)*chunkBytes(context, vocab)); err != nil {
		f.Abort()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	b := &baseWriter{path: path, file: f, w: bufio.NewWriterSize(f, 1<<20), raw: make([]byte, rowBytes(vocab))}
	head := []byte(baseMagic)
	for _, v := range []int{context, vocab, chunks} {
		head = binary.LittleEndian.AppendUint32(head, uint32(v))
	}
	for _, t := range tokens {
		head = binary.LittleEndian.AppendUint32(head, uint32(t))
	}
	if _, err := b.w.Write(head); err != nil {
		b.abort()
		return nil, atomicfile.Writing(path, err)
	}
	return b, nil
}

// add appends the log-probabilities of logits [n_vocab] in 65,536 equal steps from the least to the greatest, at most
// floor apart.
func (b *baseWriter) add(logits []float32) error {
	top, bottom := logits[0], logits[0]
	for _, v := range logits {
		top, bottom = max(top, v), min(bottom, v)
	}
	bottom = max(bottom, top-floor)
	scale := (top - bottom) / steps
	least := float32(float64(bottom) - logSumExp(logits))
	if !(scale >= 0) || !finite(least) {
		return fmt.Errorf("writing %s: the model's logits are not finite", b.path)
	}
	binary.LittleEndian.PutUint32(b.raw, math.Float32bits(scale))
	binary.LittleEndian.PutUint32(b.raw[4:], math.Float32bits(least))
	for i, v := range logits {
		step := uint16(0)
		if v > bottom { // so scale is not 0
			step = uint16(min(math.RoundToEven(float64((v-bottom)/scale)), steps))
		}
		binary.LittleEndian.PutUint16(b.raw[8+2*i:], step)
	}
	if _, err := b.w.Write(b.raw); err != nil {
		return atomicfile.Writing(b.path, err)
	}
	return nil
}

// commit completes the file under its name.
func (b *baseWriter) commit() error {
	if err := b.w.Flush(); err != nil {
		return atomicfile.Writing(b.path, err)
	}
	return b.file.Commit()
}

// abort drops what was written; after commit it does nothing.
func (b *baseWriter) abort() { b.file.Abort() }
