package serving

import (
	"os"
	"sync/atomic"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/hub"
	"github.com/powerinfer-go/powerinfer/internal/server"
	"github.com/powerinfer-go/powerinfer/internal/server/library"
	"github.com/powerinfer-go/powerinfer/internal/server/llamacpp"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// Listed returns a session's model for lists: the bytes of its tensors, the time of its file, and the planned memory.
func Listed(s *session.Session, o server.ModelOptions, m *server.Model) server.Listed {
	l := server.Listed{Name: o.Name, Aliases: o.Aliases, Tags: o.Tags, Path: o.Path, Model: m, Modified: time.Now()} // the embedded model has no file
	if info, err := os.Stat(o.Path); err == nil {
		l.Modified = info.ModTime()
	}
	for _, t := range s.File.Tensors {
		l.Size += int64(len(t.Data))
	}
	need := s.Takes()
	l.Memory, l.GPU = need.RAM+need.GPU, need.GPU
	return l
}

// Sleeping is a library of one model, which is loaded once before the server takes requests. Afterwards the model may
// sleep.
type Sleeping struct {
	*library.Library
	began atomic.Bool
}

// Ready returns server.ErrLoading until the model was loaded once.
func (s *Sleeping) Ready() error {
	if s.began.Load() {
		return nil
	}
	return server.ErrLoading
}

// Peek returns the model if it is awake. The error is server.ErrLoading until the model has been loaded once.
func (s *Sleeping) Peek(name string) (*server.Model, func(), error) {
	if err := s.Ready(); err != nil {
		return nil, nil, err
	}
	return s.Library.Peek(name)
}

// Began says that the model was loaded.
func (s *Sleeping) Began() { s.began.Store(true) }

// Asleep makes s answer requests for properties of model m while it sleeps.
func Asleep(s *server.Server, m *server.Model) {
	properties := llamacpp.Properties(m)
	s.Asleep.Store(&properties)
}

// Complete returns the complete models of folders and of the cache. towers adds their vision towers.
func Complete(h *hub.Hub, dirs []string, towers bool) ([]library.Source, error) {
	all, err := h.List(dirs...)
	if err != nil {
		return nil, err
	}
	var sources []library.Source
	for i := range all {
		if m := &all[i]; m.Complete {
			sources = append(sources, library.Source{Name: m.Name, Path: m.Path(), Size: m.Size, Modified: m.Modified, Sees: towers && hub.TowerBeside(m.Path()) != ""})
		}
	}
	return sources, nil
}
