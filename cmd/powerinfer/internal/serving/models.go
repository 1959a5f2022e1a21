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

// Listed returns the model of a session as lists show it: the bytes of its tensors, when its file was written, and the
// memory that was planned.
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

// Sleeping is a library of one model, which was loaded before requests are taken and sleeps when it is not.
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

// Complete returns the models of folders and of the cache that have all their files. With towers they see if they
// have one.
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
