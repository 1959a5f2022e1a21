package library

import (
	"context"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/server"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// begin starts to load e. The lock is held.
func (l *Library) begin(e *entry) {
	e.state, e.err = server.Loading, nil
	l.pending.Go(func() {
		err := l.load(e)
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil {
			e.state, e.err = server.Failed, server.About(e.Path, err)
			l.o.Log.Error("not loaded", "model", e.Name, "error", err)
		}
		l.announce()
	})
}

// load makes room for e and loads it.
func (l *Library) load(e *entry) error {
	select {
	case l.loads <- struct{}{}:
		defer func() { <-l.loads }()
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	}
	begin := time.Now()
	need, err := l.makeRoom(e)
	if err != nil {
		return err
	}
	l.o.Log.Info("loading", "model", e.Name, "ram", need.RAM, "gpu", need.GPU)
	opening := time.Now()
	m, closer, err := l.o.Opener.Open(l.ctx, e.Name, e.Path)
	if l.o.Meter != nil {
		l.o.Meter.Loaded(e.Name, time.Since(opening), err)
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.state, e.model, e.closer, e.need, e.last = server.Loaded, m, closer, need, time.Now()
	if e.uses == 0 && e.keep > 0 { // the request that asked may be gone
		l.idle(e)
	}
	l.o.Log.Info("loaded", "model", e.Name, "ms", time.Since(begin).Milliseconds())
	return nil
}

// makeRoom frees idle models, the least recently used first, until e fits into RAM and gets the GPU memory that it
// wants. It returns what e will take. If all other models are in use, it waits. A model that is still too large is
// loaded if it can do with less, and takes what is free.
func (l *Library) makeRoom(e *entry) (session.Need, error) {
	for {
		need, err := l.o.Opener.Need(l.ctx, e.Path)
		if err != nil {
			return need, err
		}
		free, err := l.o.Opener.Free()
		if err != nil {
			return need, err
		}
		l.mu.Lock()
		v, loaded, busy, idle := l.victim(need.RAM <= free)
		many := l.o.Most > 0 && loaded >= l.o.Most
		switch {
		case many && v == nil, need.RAM > free+idle && busy > 0:
			err = l.wait(l.ctx) // for a request to end: freeing the idle ones would not suffice
		case need.RAM > free+idle && need.Least > free+idle:
			err = tooLarge(e, need, free)
		case many, need.RAM > free && v != nil, need.GPU < need.Wanted && v != nil && v.need.GPU > 0:
			v.leaving = true
			l.halt(v)
			l.mu.Unlock()
			l.free(v, "its memory is needed for "+e.Name)
			if l.o.Meter != nil {
				l.o.Meter.Evicted(v.Name)
			}
			continue
		default:
			l.mu.Unlock()
			need.RAM = min(need.RAM, free)
			return need, nil
		}
		l.mu.Unlock()
		if err != nil {
			return need, err
		}
	}
}

// victim returns the least recently used model among those that nobody uses, the numbers of loaded and of used models,
// and the bytes of RAM of the models that nobody uses. If only GPUs' memory is short, models with some of it go first.
// The lock is held.
func (l *Library) victim(gpusOnly bool) (oldest *entry, loaded, busy int, idle int64) {
	for _, e := range l.models {
		if e.state != server.Loaded {
			continue
		}
		loaded++
		if e.uses > 0 || e.leaving {
			busy++
			continue
		}
		idle += e.need.RAM
		switch {
		case oldest == nil, gpusOnly && e.need.GPU > 0 && oldest.need.GPU == 0:
			oldest = e
		case gpusOnly && e.need.GPU == 0 && oldest.need.GPU > 0:
		case e.last.Before(oldest.last):
			oldest = e
		}
	}
	return oldest, loaded, busy, idle
}

func tooLarge(e *entry, need session.Need, free int64) error {
	const gib = 1 << 30
	return server.Invalid("%s needs %.1f GiB of RAM and %.1f GiB are free; a smaller context (-c) or quantisation takes less",
		e.Name, float64(need.Least)/gib, float64(free)/gib)
}
