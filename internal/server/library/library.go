// Package library holds a server's models: found in folders and in the hub's cache, loaded when a request names one,
// and freed when nobody has asked for a while or their memory is needed for another.
package library

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/server"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// An Opener loads models.
type Opener interface {
	// Need returns what the model in a file would take now.
	Need(ctx context.Context, path string) (session.Need, error)
	// Open loads the model in a file. Closing the closer frees it.
	Open(ctx context.Context, name, path string) (*server.Model, io.Closer, error)
	// Free returns the bytes of RAM that a model may take now.
	Free() (int64, error)
}

// A Source is a model that could be loaded.
type Source struct {
	Name     string
	Path     string // path of its first file
	Size     int64  // size of its files, in bytes
	Modified time.Time
	Aliases  []string // other names
	Tags     []string // for lists
	Sees     bool     // it has a tower, by which it is shown pictures
}

// Options are the choices of a library.
type Options struct {
	Opener Opener
	Scan   func() ([]Source, error) // returns the models that there are
	Keep   time.Duration            // how long a model stays loaded after its last request; negative: until its memory is needed
	Most   int                      // models that are loaded at a time; 0: as many as fit
	Any    bool                     // the only model answers under every name
	Asked  bool                     // models are loaded only by Load, not by a request that names one
	Log    *slog.Logger
	Meter  server.Meter // nil: nobody counts
}

// A Library is a server.Models of models that are loaded on demand.
type Library struct {
	o       Options
	ctx     context.Context // for loading: loading goes on if a request ends
	stop    context.CancelFunc
	loads   chan struct{} // holds one element while a model is being loaded, because only then the free memory is known
	pending sync.WaitGroup

	mu      sync.Mutex
	models  map[string]*entry
	changed chan struct{} // closed when a model was released, loaded or freed
}

// An entry is a model of the library, guarded by its lock.
type entry struct {
	Source
	state   server.State
	model   *server.Model // nil unless state is Loaded
	closer  io.Closer
	need    session.Need
	err     error // why state is Failed; else nil
	uses    int   // requests that hold it
	last    time.Time
	keep    time.Duration
	expires *time.Timer // nil: none runs
	leaving bool        // it is being freed, or will be when its last request ends
}

// New returns a library without loaded models. Close frees them.
func New(o Options) *Library {
	l := &Library{o: o, loads: make(chan struct{}, 1), models: map[string]*entry{}, changed: make(chan struct{})}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l
}

// Close frees all models, and returns when they are freed. No request may hold one.
func (l *Library) Close() error {
	l.stop()
	l.pending.Wait()
	l.mu.Lock()
	var loaded []*entry
	for _, e := range l.models {
		if e.state == server.Loaded && !e.leaving {
			loaded = append(loaded, e)
			e.leaving = true
		}
	}
	l.mu.Unlock()
	for _, e := range loaded {
		l.free(e, "the server ends")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.freeing() { // an expired model is still being freed
		changed := l.changed
		l.mu.Unlock()
		<-changed
		l.mu.Lock()
	}
	return nil
}

// freeing reports whether a model is being freed. The lock is held.
func (l *Library) freeing() bool {
	for _, e := range l.models {
		if e.leaving && e.uses == 0 {
			return true
		}
	}
	return false
}

// announce wakes the goroutines that wait for a change. The lock is held.
func (l *Library) announce() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// wait waits, without the lock, for a change.
func (l *Library) wait(ctx context.Context) error {
	changed := l.changed
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.ctx.Done():
		return server.Unavailable("the server is stopping")
	}
}

// Use returns a model, and loads it if need be. The empty name means the only model, or the only loaded one.
func (l *Library) Use(ctx context.Context, name string) (*server.Model, func(), error) {
	return l.use(ctx, name, !l.o.Asked)
}

// use is Use, which loads the model where load is set.
func (l *Library) use(ctx context.Context, name string, load bool) (*server.Model, func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, err := l.find(name)
	if err != nil {
		return nil, nil, err
	}
	for asked := false; ; asked = true {
		switch {
		case e.state == server.Loaded && !e.leaving:
			e.uses++
			l.halt(e)
			return e.model, sync.OnceFunc(func() { l.release(e) }), nil
		case e.state == server.Failed && asked:
			return nil, nil, e.err
		case e.state == server.Failed && !load:
			return nil, nil, server.Invalid("the model %.200q could not be loaded: %s; POST /models/load tries again", e.Name, e.err)
		case e.state != server.Loading && !load && !e.leaving:
			return nil, nil, server.Invalid("the model %.200q is not loaded; POST /models/load loads it", e.Name)
		case e.state == server.Unloaded, e.state == server.Failed:
			l.begin(e)
		}
		if err := l.wait(ctx); err != nil {
			return nil, nil, err
		}
	}
}

// Peek returns a loaded model to a caller that only looks at it.
func (l *Library) Peek(name string) (*server.Model, func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, err := l.find(name)
	switch {
	case err != nil:
		return nil, nil, err
	case e.state == server.Loading:
		return nil, nil, server.ErrLoading
	case e.state != server.Loaded || e.leaving:
		return nil, nil, server.NotLoaded(e.Name, e.err)
	}
	e.uses++
	return e.model, sync.OnceFunc(func() { l.looked(e) }), nil
}

// looked ends a look at e, which may have become due to be freed meanwhile.
func (l *Library) looked(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.uses--; e.uses == 0 {
		if l.halt(e); e.leaving || e.keep <= 0 {
			l.idle(e)
		} else {
			e.expires = time.AfterFunc(max(0, e.keep-time.Since(e.last)), func() { l.expire(e) })
		}
	}
	l.announce()
}

// release ends a request's use of e.
func (l *Library) release(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.uses--
	e.last = time.Now()
	if e.uses == 0 {
		l.idle(e)
	}
	l.announce()
}

// idle frees e, or sets when. The lock is held.
func (l *Library) idle(e *entry) {
	switch {
	case e.leaving, e.keep == 0:
		e.leaving = true
		l.pending.Go(func() { l.free(e, "it was asked to go") })
	case e.keep > 0:
		e.expires = time.AfterFunc(e.keep, func() { l.expire(e) })
	}
}

// halt stops e's timer. The lock is held.
func (l *Library) halt(e *entry) {
	if e.expires != nil {
		e.expires.Stop()
		e.expires = nil
	}
}

// expire frees e if it was not used meanwhile.
func (l *Library) expire(e *entry) {
	l.mu.Lock()
	due := e.uses == 0 && !e.leaving && e.state == server.Loaded && e.expires != nil && time.Since(e.last) >= e.keep
	e.leaving = e.leaving || due
	why := "nobody asked for " + e.keep.String()
	l.mu.Unlock()
	if due {
		l.free(e, why)
	}
}

// free frees e, which is leaving and not in use.
func (l *Library) free(e *entry, why string) {
	err := e.closer.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.halt(e)
	e.state, e.model, e.closer, e.leaving = server.Unloaded, nil, nil, false
	l.o.Log.Info("freed", "model", e.Name, "why", why, "ram", e.need.RAM, "gpu", e.need.GPU, "error", err)
	l.announce()
}

// find returns the model of a name. The lock is held.
func (l *Library) find(name string) (*entry, error) {
	if e := l.models[name]; e != nil && e.state == server.Loaded {
		return e, nil // without looking at folders
	}
	all, err := l.scan()
	if err != nil {
		return nil, err
	}
	if name == "" || l.o.Any && len(all) == 1 {
		return l.usual(all)
	}
	for _, e := range all {
		if e.Name == name {
			return e, nil
		}
	}
	for _, e := range all {
		if strings.EqualFold(e.Name, name) {
			return e, nil
		}
	}
	return nil, server.NotFound("there is no model %.200q; there are: %s", name, names(all))
}

// usual returns the model of requests that name none.
func (l *Library) usual(all []*entry) (*entry, error) {
	loaded := slices.DeleteFunc(slices.Clone(all), func(e *entry) bool { return e.state != server.Loaded })
	for _, few := range [][]*entry{loaded, all} {
		if len(few) == 1 {
			return few[0], nil
		}
	}
	if len(all) == 0 {
		return nil, server.NotFound("there are no models: powerinfer pull fetches one")
	}
	return nil, server.Invalid("the request names no model; there are: %s", names(all))
}

// mostNames is the largest number of models that an error lists.
const mostNames = 20

func names(all []*entry) string {
	var list []string
	for _, e := range all[:min(len(all), mostNames)] {
		list = append(list, e.Name)
	}
	if len(all) > mostNames {
		list = append(list, "…")
	}
	return strings.Join(list, ", ")
}

// scan returns all models by name. Loaded models stay in the list after their file is gone. The lock is held.
func (l *Library) scan() ([]*entry, error) {
	sources, err := l.o.Scan()
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, s := range sources {
		there[s.Name] = true
		if e := l.models[s.Name]; e == nil {
			l.models[s.Name] = &entry{Source: s, state: server.Unloaded, keep: l.o.Keep}
		} else if e.state == server.Unloaded || e.state == server.Failed {
			e.Source = s
		}
	}
	var all []*entry
	for name, e := range l.models {
		if !there[name] && (e.state == server.Unloaded || e.state == server.Failed) {
			delete(l.models, name)
			continue
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// List returns all models, by name.
func (l *Library) List() []server.Listed {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, err := l.scan()
	if err != nil {
		l.o.Log.Warn("the models cannot be listed", "error", err)
	}
	list := make([]server.Listed, len(all))
	for i, e := range all {
		list[i] = server.Listed{
			Name: e.Name, Aliases: e.Aliases, Tags: e.Tags, Path: e.Path, Size: e.Size, Modified: e.Modified, Sees: e.Sees, State: e.state, Model: e.model, Err: e.err,
		}
		if e.state == server.Loaded {
			list[i].Memory, list[i].GPU = e.need.RAM+e.need.GPU, e.need.GPU
			if e.uses == 0 && e.keep > 0 {
				list[i].Expires = e.last.Add(e.keep)
			}
		}
	}
	return list
}

// Ready returns nil: models are loaded when they are asked for.
func (l *Library) Ready() error { return nil }

// Load loads a model.
func (l *Library) Load(ctx context.Context, name string) error {
	_, release, err := l.use(ctx, name, true)
	if err == nil {
		release()
	}
	return err
}

// Unload frees a model when its requests have ended, and waits for that.
func (l *Library) Unload(ctx context.Context, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, err := l.find(name)
	if err != nil {
		return err
	}
	for e.state == server.Loading || e.leaving {
		if err := l.wait(ctx); err != nil {
			return err
		}
	}
	if e.state != server.Loaded {
		return nil
	}
	e.leaving = true
	if e.uses == 0 {
		l.idle(e)
	}
	for e.leaving {
		if err := l.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Keep says how long a model stays loaded after its last request.
func (l *Library) Keep(name string, d time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, err := l.find(name)
	if err != nil {
		return err
	}
	e.keep = d
	if e.state == server.Loaded && e.uses == 0 && !e.leaving {
		l.halt(e)
		l.idle(e)
	}
	return nil
}
