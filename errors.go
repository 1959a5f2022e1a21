package powerinfer

import (
	"github.com/powerinfer-go/powerinfer/internal/compute"
	"github.com/powerinfer-go/powerinfer/internal/engine"
)

// ErrClosed is the error of a generation or an evaluation whose model was closed.
var ErrClosed = engine.ErrClosed

// ErrFault is the error of a model whose mapped file became shorter, or could no longer be read, while it was in use.
var ErrFault = compute.ErrFault

// ContextError is the error of a text that is longer than the context: errors.As finds how long either is.
type ContextError = engine.ContextError

// Memory holds the bytes of a machine's memory that a model is expected to take, before anything is loaded.
type Memory = engine.Memory

// MemoryError is the error of a model that does not fit into memory, with what it needs.
type MemoryError = engine.MemoryError
