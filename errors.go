package powerinfer

import (
	"errors"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/fault"
	"github.com/powerinfer-go/powerinfer/internal/hub"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// Errors that a program may want to tell apart by errors.Is.
var (
	ErrClosed     = engine.ErrClosed    // the model was closed
	ErrFault      = fault.Err           // a mapped file became shorter, or could no longer be read, while it was in use
	ErrNoTemplate = chat.ErrNoTemplate  // the model's file has no chat template, and none was named
	ErrNotCached  = engine.ErrNotCached // SaveCache: the model holds no keys and values of the text any more
	ErrNoRoom     = engine.ErrNoRoom    // RestoreCache: generations hold all of the KV cache
	ErrNotFound   = hub.ErrNotFound     // Pull: neither the hub nor the cache has the model
	ErrDenied     = hub.ErrDenied       // Pull: a token is missing, or its owner has not accepted the model's terms
	ErrOffline    = hub.ErrOffline      // Pull: the hub cannot be reached, or the environment forbids it
)

// ContextError means that a text is longer than the context.
type ContextError struct {
	Tokens  int // tokens of the text; 0: unknown, as the text would grow
	Context int // tokens

	told
}

// Memory holds the bytes of a machine's memory that a model is expected to take, before anything is loaded.
type Memory struct {
	Weights     int64 // in RAM, without those that stay in the mapped file or on the disk
	Units       int64 // in RAM: room for experts or neurons that stay on the disk
	Reading     int64 // in RAM: buffers for reading units from the disk, and the reads' other memory
	Sending     int64 // in RAM: buffers that weights pass through on their way to GPUs while texts are computed
	Cache       int64 // in RAM, of keys, values and states
	Activations int64 // activations of the largest step, and its rows of logits
	Process     int64 // the program itself, the vocabulary and sampling
	Beside      int64 // in RAM: a draft model and what shows pictures; 0 in errors, which leave them out
	Need        int64 // the sum, in RAM
	Available   int64 // free RAM; 0: unknown
	Budget      int64 // RAM that may be used; math.MaxInt64: no bound is known
	OnGPUs      int64 // weights and cache in the memory of GPUs
	OnDisk      int64 // experts or neurons that stay on the disk; Units has room for some of them. 0: nothing stays there
}

// Parts returns the sum and its parts in words, rounded so that they add up.
func (m *Memory) Parts() string { return (*engine.Memory)(m).Parts() }

// MemoryError means that a model does not fit into memory.
type MemoryError struct {
	File string
	Memory

	told
}

// CacheSizeError means that a text's keys and values take more bytes than SaveCache may write.
type CacheSizeError struct {
	Bytes, Most int64

	told
}

// told is an error whose text names settings by the API's fields.
type told struct{ err error }

// Text implements setting.Namer, for programs of this module that call settings by their flags.
func (e told) Text(n setting.Names) string { return setting.Text(e.err, n) }

func (e told) Error() string { return e.Text(setting.Fields) }
func (e told) Unwrap() error { return e.err }

// tell returns err as the API's users read it.
func tell(err error) error {
	if err == nil {
		return nil
	}
	var long *engine.ContextError
	var memory *engine.MemoryError
	var size *engine.SizeError
	switch {
	case errors.As(err, &long):
		return &ContextError{long.Tokens, long.Context, told{err}}
	case errors.As(err, &memory):
		return &MemoryError{memory.File, Memory(memory.Memory), told{err}}
	case errors.As(err, &size):
		return &CacheSizeError{size.Bytes, size.Most, told{err}}
	}
	return setting.For(setting.Fields, err)
}
