package session

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/hub"
	"github.com/powerinfer-go/powerinfer/internal/model"
	"github.com/powerinfer-go/powerinfer/internal/planner"
	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// looksForHead reports whether the draft head beside a model drafts for it, if there is one: where nothing else is named
// that drafts, unless the model has a layer that predicts a further token, and this is asked for.
func (o *Options) looksForHead(c *model.Config) bool {
	d := &o.Engine.Drafts
	return o.Draft.Path == "" && !o.Draft.Off && d.Most > 0 && d.Head == nil && (!d.Further || c.Further == 0)
}

// headBeside opens the file of the best draft head beside the model in f, of those that fit it; nil: there is none, or o
// has none. refused is what is wrong with one that does not fit, where none does.
func (o *Options) headBeside(f *gguf.File) (head *gguf.File, refused error) {
	paths := hub.HeadsBeside(f.Path)
	if len(paths) == 0 {
		return nil, nil
	}
	c, err := model.ReadConfig(f, o.Engine.Activation)
	if err != nil || !o.looksForHead(&c) {
		return nil, nil // the error is told when the model is opened
	}
	for _, path := range paths {
		file, err := gguf.Open(path)
		if err == nil {
			if err = o.Draft.wants(file); err == nil {
				err = c.TakeHead(f, file)
			}
			if err == nil {
				return file, nil
			}
			_ = file.Close()
		}
		if refused == nil {
			refused = err
		}
	}
	return nil, refused
}

// OpenHeadBeside opens the file of the draft head beside the model in f that drafts for it with these options; nil: there
// is none.
func OpenHeadBeside(f *gguf.File, drafts engine.Drafts) *gguf.File {
	head, _ := (&Options{Engine: engine.Options{Drafts: drafts}}).headBeside(f)
	return head
}

// HeadBeside returns the path of the draft head beside the model in f that drafts for it unless options say otherwise;
// empty: there is none.
func HeadBeside(f *gguf.File) string {
	head := OpenHeadBeside(f, engine.Drafts{Most: 1})
	if head == nil {
		return ""
	}
	defer head.Close()
	return head.Path
}

// findHead has the draft head beside the model draft for it, if there is one. One that does not fit is left alone, with a
// line.
func (s *Session) findHead(o *Options) error {
	head, refused := o.headBeside(s.File)
	if head != nil {
		s.found = true
		return s.openHead(head, o)
	}
	if kinds := o.Draft.Kinds; kinds != nil {
		return cmp.Or(refused, setting.Errorf("there is no draft head of architecture %s beside %s: name one with %s", strings.Join(kinds, " or "), s.File.Path, setting.DraftModel))
	}
	if refused != nil && o.Planner.Notice != nil {
		o.Planner.Notice(fmt.Sprintf("the draft model %s is left out: %v", filepath.Base(hub.HeadsBeside(s.File.Path)[0]), refused))
	}
	return nil
}

// planWithHead is planFitting for the model. A draft head that was only found beside it is left out, with a line, where
// the context would have to be cut for it.
func (s *Session) planWithHead(ctx context.Context, o *Options) (p *planner.Planner, cut int, err error) {
	without := *o
	p, cut, err = o.planFitting(ctx, s.File, o.Engine.Room())
	if err != nil || cut == 0 || !s.found {
		return p, cut, err
	}
	without.Engine.Drafts.Head = nil
	q, less, err := without.planFitting(ctx, s.File, without.Engine.Room())
	if err != nil || less != 0 && less <= cut {
		return p, cut, err
	}
	if o.Planner.Notice != nil {
		o.Planner.Notice(fmt.Sprintf("the draft model %s is left out: with it, memory has room for a context of %d tokens", filepath.Base(s.head.Path), cut))
	}
	*o = without
	return q, less, s.dropHead()
}

// dropHead closes the head's file, which drafts for no model.
func (s *Session) dropHead() error {
	f := s.head
	s.head, s.found = nil, false
	return f.Close()
}

// DraftsBy returns the path of the file that drafts for the model beside its own; empty: none does.
func (s *Session) DraftsBy() string {
	switch {
	case s.draft != nil:
		return s.draft.File.Path
	case s.head != nil && s.Config().FurtherCached:
		return s.head.Path
	}
	return ""
}
