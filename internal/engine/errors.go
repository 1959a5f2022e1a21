package engine

import (
	"errors"

	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// ErrClosed is the error of what was asked of an engine that is closed.
var ErrClosed = errors.New("the model is closed")

// ContextError is the error of a text that is longer than the context.
type ContextError struct {
	Tokens  int // of the text; 0 where it is not known how long it would become
	Context int // tokens
}

func (e *ContextError) Error() string { return e.Text(setting.Flags) }

// Text implements setting.Namer.
func (e *ContextError) Text(n setting.Names) string {
	if e.Tokens == 0 {
		return setting.Sprintf(n, "the context of %d tokens is full; raise it with %s", e.Context, setting.Context)
	}
	return setting.Sprintf(n, "the prompt has %d tokens, more than the context of %d; raise it with %s or shorten the prompt", e.Tokens, e.Context, setting.Context)
}

// Memory holds the bytes of a machine's memory that a model is expected to take, before anything is loaded.
type Memory struct {
	Weights, Cache, Activations int64 // in RAM; weights that are computed on in the mapped file are not counted
	Need                        int64 // of RAM: the sum, and what the process itself takes
	Available                   int64 // of RAM; 0: unknown
	OnGPUs                      int64 // weights and cache that lie in the memory of GPUs
}

// fits reports whether that is available, as far as is known.
func (m *Memory) fits() bool { return m.Available == 0 || m.Need <= m.Available }

func gib(n int64) float64 { return float64(n) / (1 << 30) }

// MemoryError is the error of a model that does not fit into memory.
type MemoryError struct {
	File string
	Memory
}

func (e *MemoryError) Error() string { return e.Text(setting.Flags) }

// Text implements setting.Namer.
func (e *MemoryError) Text(n setting.Names) string {
	return setting.Sprintf(n, "%s: needs %.1f GiB (weights %.1f, KV cache %.1f, activations %.1f) but %.1f GiB are available; lower %s or %s, or use %s to read weights from disk",
		e.File, gib(e.Need), gib(e.Weights), gib(e.Cache), gib(e.Activations), gib(e.Available), setting.Context, setting.Step, setting.Mapped)
}
