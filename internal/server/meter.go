package server

import (
	"time"

	"github.com/powerinfer-go/powerinfer/internal/engine"
)

// A Meter counts what happens to requests and models, and not what they say. Its methods may be called from several
// goroutines, and return at once.
type Meter interface {
	// Request counts an answered request by the pattern of its route, which is empty for unknown ones.
	Request(route string, status int, took time.Duration)
	// Loaded counts a model that was loaded, or could not be.
	Loaded(name string, took time.Duration, err error)
	// Evicted counts a model that was freed for another's sake.
	Evicted(name string)
	// Model returns the meter of a model.
	Model(name string) ModelMeter
}

// A ModelMeter counts what happens to a model's texts.
type ModelMeter interface {
	// Token counts a token that came this long after the previous one or, if it is the first, after the request.
	Token(after time.Duration, first bool)
	// Ended counts a text that ended. It had waited for its turn, and took so long altogether.
	Ended(r *engine.Result, waited, took time.Duration)
	// Read counts tokens that were evaluated and not generated from, as for embeddings.
	Read(tokens int, took time.Duration)
}

// unmetered counts nothing.
type unmetered struct{}

func (unmetered) Token(time.Duration, bool)                          {}
func (unmetered) Ended(*engine.Result, time.Duration, time.Duration) {}
func (unmetered) Read(int, time.Duration)                            {}
