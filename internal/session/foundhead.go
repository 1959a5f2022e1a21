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
// that drafts. A layer of the model that predicts a further token goes first if it is asked for, and no kind of head is.
func (o *Options) looksForHead(c *model.Config) bool {
	d := &o.Engine.Drafts
	return o.Draft.Path == "" && !o.Draft.Off && d.Most > 0 && o.Engine.Head == nil && (!d.Further || c.Further == 0 || o.Draft.Kinds != nil)
}

// headBeside opens the file of the best draft head beside the model in f, of those that fit it; nil: none fits, or o asks
// for none. If none fits, refused says why the first does not.
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
			if err = o.headFits(c, f, file); err == nil {
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

// OpenHeadBeside opens the file of the draft head beside the model in f that drafts for it with o's Engine.Drafts and
// Draft; nil: there is none.
func (o *Options) OpenHeadBeside(f *gguf.File) *gguf.File {
	head, _ := o.headBeside(f)
	return head
}

// HeadBeside returns the path of the draft head beside the model in f that drafts for it unless options say otherwise;
// empty: there is none.
func HeadBeside(f *gguf.File) string {
	head := (&Options{Engine: engine.Options{Drafts: engine.Drafts{Most: 1}}}).OpenHeadBeside(f)
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
		s.head, s.found = head, true
		o.takeHead(head)
		return nil
	}
	if kinds := o.Draft.Kinds; kinds != nil {
		return cmp.Or(refused, setting.Errorf("there is no draft head of architecture %s beside %s: name one with %s", strings.Join(kinds, " or "), s.File.Path, setting.DraftModel))
	}
	if refused != nil && o.Planner.Notice != nil {
		o.Planner.Notice(fmt.Sprintf("the draft model %s is left out: %v", filepath.Base(hub.HeadsBeside(s.File.Path)[0]), refused))
	}
	return nil
}

// planWithHead is planFitting for the model in f. A draft head that was only found beside it is left out of o where the
// context would have to be cut for it, to so many tokens; 0: it is not left out.
func (o *Options) planWithHead(ctx context.Context, f *gguf.File, found bool, room engine.Room) (p *planner.Planner, cut, with int, err error) {
	without := *o
	p, cut, err = o.planFitting(ctx, f, room)
	if err == nil && cut > 0 && found {
		without.Engine.Head = nil
		q, less, failed := without.planFitting(ctx, f, room)
		if err = failed; err == nil && (less == 0 || less > cut) {
			*o, p, cut, with = without, q, less, cut
		}
	}
	if err == nil {
		p, err = o.planLongSteps(ctx, f, p, room)
	}
	return p, cut, with, err
}

// dropHead leaves out the head that was found, and says why.
func (s *Session) dropHead(o *Options, why string) error {
	if o.Planner.Notice != nil {
		o.Planner.Notice(fmt.Sprintf("the draft model %s is left out: %s", filepath.Base(s.head.Path), why))
	}
	f := s.head
	s.head, s.found, o.Engine.Head = nil, false, nil
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
