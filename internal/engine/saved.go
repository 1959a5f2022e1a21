package engine

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/kvcache"
	"github.com/powerinfer-go/powerinfer/internal/kvfile"
	"github.com/powerinfer-go/powerinfer/internal/model"
)

// Saved describes a file of keys and values that was written or read.
type Saved struct {
	Tokens []int32 // the text's tokens with keys and values in the file, or in the cache now
	Bytes  int64   // size of the file
}

// ErrNotCached means that the cache holds nothing of a text to save.
var ErrNotCached = errors.New("the KV cache holds nothing of this text any more")

// ErrNoRoom means that running requests hold all of the cache, so that nothing can be restored.
var ErrNoRoom = errors.New("running requests hold the whole KV cache; try again when one has ended")

// errChanged means that the cache was given up during an operation.
var errChanged = errors.New("meanwhile the sparse threshold was changed, or the model loaded again because a GPU failed; try again")

// SizeError means that a text's keys and values take more bytes than allowed.
type SizeError struct {
	Bytes, Most int64 // size of the file, and the limit
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("the text's keys and values take %.1f MiB, more than the %.1f MiB that are allowed", float64(e.Bytes)/(1<<20), float64(e.Most)/(1<<20))
}

// SaveFile is Save to a file of at most most bytes; 0: no limit. The file appears only when it is complete.
func (e *Engine) SaveFile(ctx context.Context, path string, tokens []int32, most int64) (s Saved, err error) {
	err = atomicfile.Write(path, atomicfile.Begins("a file of keys and values that PowerInfer saved", kvfile.Magic), func(f *atomicfile.File) error {
		s, err = e.save(ctx, f, tokens, most)
		return err
	})
	return s, err
}

// RestoreFile is Restore from a file. Errors name it.
func (e *Engine) RestoreFile(ctx context.Context, path string) (Saved, error) {
	info, err := os.Stat(path) // first, because opening a pipe would wait for its writer
	if err != nil {
		return Saved{}, err
	}
	if !info.Mode().IsRegular() {
		return Saved{}, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return Saved{}, err
	}
	defer f.Close()
	s, err := e.Restore(ctx, f, info.Size())
	if err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// Save writes the keys and values of the longest beginning of a text that the cache holds. Requests continue meanwhile:
// a page is read between two steps.
func (e *Engine) Save(ctx context.Context, w io.Writer, tokens []int32) (s Saved, err error) {
	return e.save(ctx, w, tokens, 0)
}

// save is Save with a limit of most bytes; 0: no limit.
func (e *Engine) save(ctx context.Context, w io.Writer, tokens []int32, most int64) (s Saved, err error) {
	want := make([]kvcache.Label, len(tokens))
	for i, id := range tokens {
		want[i] = kvcache.LabelOf(id, false)
	}
	e.digest() // it may have to read much
	var h kvfile.Header
	prefix, pages, err := e.sched.find(want, func() (err error) {
		h, err = e.header()
		return err
	})
	if err != nil {
		return s, err
	}
	defer e.sched.release(prefix)
	if len(prefix.Labels()) == 0 {
		return s, ErrNotCached
	}
	h.Labels, h.Near = prefix.Labels(), prefix.Near()
	if n := h.Bytes(); most > 0 && n > most {
		return s, &SizeError{n, most}
	}
	out := bufio.NewWriterSize(w, 1<<20)
	file, err := kvfile.NewWriter(out, &h)
	for i := 0; err == nil && i < h.Pages(); i++ {
		page := h.NewPage(i)
		if err = ctx.Err(); err == nil {
			err = pages.readPage(prefix.Page(i), page)
		}
		if err == nil {
			err = file.Page(page)
		}
	}
	if state := h.NewState(); err == nil && state != nil {
		if err = pages.readPage(kvcache.Page{Far: -1, Near: -1, State: prefix.State()}, state); err == nil {
			err = file.Page(state)
		}
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return s, err
	}
	return Saved{tokens[:len(h.Labels)], h.Bytes()}, nil
}

// Restore reads the output of Save, size bytes, into the cache, as if a request with the text had ended. If there is no
// room for the whole text, because running requests hold the pages or the context is shorter, it restores the
// beginning. After an error the cache holds nothing of the text.
func (e *Engine) Restore(ctx context.Context, r io.Reader, size int64) (s Saved, err error) {
	f, err := kvfile.NewReader(r, size)
	if err != nil {
		return s, err
	}
	own, parts, err := e.accept(f)
	if err != nil {
		return s, err
	}
	seq, pages, err := e.sched.begin(len(f.Labels), f.Near)
	if err != nil {
		return s, err
	}
	kept := 0
	for i := 0; i < f.Pages(); i++ {
		n := f.PageLen(i)
		page := f.NewPage(i)
		if err = ctx.Err(); err == nil {
			err = f.Next(page)
		}
		if err != nil || !e.sched.extend(seq, kept+n) {
			break
		}
		page = parted(page, parts)
		place := seq.Page(i)
		for l, windowed := range own.Windowed {
			if windowed && place.Near < 0 {
				page[l] = nil
			}
		}
		if err = pages.writePage(place, page); err != nil {
			break
		}
		kept += n
	}
	kept = min(kept, e.context)
	state := f.NewState()
	if err == nil && (kept == 0 || !seq.Continues(kept) || state != nil && kept < len(f.Labels)) { // a state belongs to all positions together
		err = ErrNoRoom
	}
	if err == nil && state != nil {
		if err = f.Next(state); err == nil {
			err = pages.writePage(kvcache.Page{Far: -1, Near: -1, State: seq.State()}, parted(state, parts))
		}
	}
	err = e.sched.adopt(seq, pages, f.Labels[:kept], func() error {
		if err != nil {
			return err
		}
		now, err := e.header()
		if err == nil && now.Model != f.Model {
			err = errChanged
		}
		return err
	})
	if err != nil {
		return s, err
	}
	for _, l := range f.Labels[:kept] {
		s.Tokens = append(s.Tokens, l.Token())
	}
	s.Bytes = f.Bytes()
	return s, nil
}

// Erase removes a text's keys and values from the cache, except those that other texts share.
func (e *Engine) Erase(tokens []int32) error {
	want := make([]kvcache.Label, len(tokens))
	for i, id := range tokens {
		want[i] = kvcache.LabelOf(id, false)
	}
	return e.sched.erase(want)
}

// accept checks that f's keys and values belong to this model. It returns the header that a file saved now would have,
// and for each part of the cache the matching part of f's pages; -1: none, for parts of a draft program. It marks keys
// and values that other arithmetic computed.
func (e *Engine) accept(f *kvfile.Reader) (h kvfile.Header, parts []int, err error) {
	h, err = e.header()
	if err == nil {
		parts = sameParts(h.Layers, f.Layers, e.config.Layers, e.draftParts())
	}
	switch {
	case err != nil:
		return h, nil, err
	case f.Model != h.Model && f.Name != h.Name:
		return h, nil, fmt.Errorf("the file was saved with another model, %q, and this one is %q", f.Name, h.Name)
	case f.Model != h.Model || parts == nil:
		return h, nil, errors.New("the file was saved with another model of this name, or with other options of its context, activation or sparse threshold")
	}
	for l, from := range parts {
		if from >= 0 && f.Near > 0 && f.Windowed[from] && !h.Windowed[l] {
			return h, nil, fmt.Errorf("the file holds, of layers with sliding windows, what the end of its text sees, and a context of %d needs all: evaluate the text again", e.context)
		}
	}
	for i, l := range f.Labels {
		if int(l.Token()) >= e.config.Vocab {
			return h, nil, fmt.Errorf("the file is damaged: token %d is not in the vocabulary of %d", l.Token(), e.config.Vocab)
		}
		if f.Arithmetic != h.Arithmetic {
			f.Labels[i] = l.Foreign()
		}
	}
	return h, parts, nil
}

// draftParts is model.Config.DraftParts of the model that is loaded.
func (e *Engine) draftParts() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.model.DraftParts()
}

// sameParts returns for each part of a cache the part of a file with its keys and values; nil: they are of another
// kind. The cache has drafts parts of a draft program. A file saved with another draft program, or without one, lacks
// these. The draft program then drafts worse until it has read more of the text.
func sameParts(own, file []compute.KVShape, layers, drafts int) []int {
	others := len(file) - (len(own) - drafts) // the file's parts that are not the model's
	if others < 0 {
		return nil
	}
	parts := slices.Repeat([]int{-1}, len(own))
	to, from := modelParts(len(own), layers, drafts), modelParts(len(file), layers, others)
	for i, part := range to {
		if own[part] != file[from[i]] {
			return nil
		}
		parts[part] = from[i]
	}
	if slices.Equal(own, file) {
		for i := range parts {
			parts[i] = i
		}
	}
	return parts
}

// modelParts returns which of n parts of a cache are the model's own. drafts of them are a draft program's.
func modelParts(n, layers, drafts int) (parts []int) {
	for i := range n - drafts {
		if i >= layers && drafts > 0 {
			i++ // after the draft program's first
		}
		parts = append(parts, i)
	}
	return parts
}

// parted returns a page of the cache from a page of a file: see sameParts.
func parted(page [][]byte, parts []int) [][]byte {
	out := make([][]byte, len(parts))
	for i, from := range parts {
		if from >= 0 {
			out[i] = page[from]
		}
	}
	return out
}

// maxModelName is the length in bytes of a model's name that a file keeps.
const maxModelName = 200

// header returns the header of files of the model's keys and values.
func (e *Engine) header() (h kvfile.Header, err error) {
	base := e.digest()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.broken != nil {
		return h, e.broken
	}
	h.Name = e.config.Name[:min(maxModelName, len(e.config.Name))]
	h.Layers, h.Windowed = e.model.KVShapes()
	h.Model = sha256.Sum256(fmt.Appendf(base[:], "%s", e.model.Meaning()))
	h.Arithmetic = sha256.Sum256(fmt.Appendf(nil, "%s %s %v %s %v %+v %v %v", build(), runtime.GOARCH, e.dev.Name(), e.model.Sparse, e.model.Magnitudes, e.places, e.options.Mapped || e.stream != nil, e.options.Order))
	return h, nil
}

// Fingerprint identifies the model and everything that decides its answers, except rounding: a SHA-256 of samples of
// its file, of its adapters, and of the mode.
func (e *Engine) Fingerprint() [sha256.Size]byte {
	base := e.digest()
	e.mu.Lock()
	defer e.mu.Unlock()
	return sha256.Sum256(fmt.Appendf(base[:], "%s, %v %v", e.model.Meaning(), e.model.Sparse, e.model.Magnitudes))
}

// build names the program: another version may round in another way.
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	s := info.Main.Version
	for _, v := range info.Settings {
		if v.Key == "vcs.revision" {
			s += " " + v.Value
		}
	}
	return s
}

// pagesOf are the pages of a loaded model that e may have replaced meanwhile.
type pagesOf struct {
	e *Engine
	m *model.Model
}

// use calls f with the model between steps, if e still has it.
func (p pagesOf) use(f func() error) error {
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	switch {
	case p.e.broken != nil:
		return p.e.broken
	case p.e.model != p.m:
		return errChanged
	}
	return f()
}

func (p pagesOf) readPage(page kvcache.Page, layers [][]byte) error {
	return p.use(func() error { return p.m.ReadPage(compute.Page(page), layers) })
}

func (p pagesOf) writePage(page kvcache.Page, layers [][]byte) error {
	return p.use(func() error { return p.m.WritePage(compute.Page(page), layers) })
}
