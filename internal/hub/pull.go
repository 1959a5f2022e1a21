package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/powerinfer-go/powerinfer/internal/hw"
)

// Progress says how far a Pull is.
type Progress struct {
	Model  string // its name, as in List
	File   string // that is being fetched: its path in the repository
	SHA256 string // of it; empty if Git stores it itself

	FileDone, FileTotal int64 // bytes of it
	Done, Total         int64 // bytes of all files of the model
}

// Pull downloads a model's current version from the hub into the cache, and returns its files. It reuses what the cache
// has: complete files of any program and commit, and partial ones. A Pull that fails or ends with ctx leaves its
// partial download for the next one. progress, which may be nil, is called from Pull's goroutine, first with the bytes
// that the cache has.
func (h *Hub) Pull(ctx context.Context, n Name, progress func(Progress)) (Model, error) {
	if err := checkRepo(n.Repo); err != nil {
		return Model{}, err
	}
	if h.o.Offline {
		return Model{}, failed(ErrOffline, "%s cannot be pulled, because %s is set; %s", n, offlineSetting, h.holds())
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	p := &pull{h: h, progress: progress}
	m, err := p.run(ctx, n)
	if p.r != nil {
		p.r.close()
	}
	if errors.Is(err, ErrOffline) && p.r == nil { // the hub was not even asked
		err = failed(ErrOffline, "%v; %s", err, h.holds())
	}
	return m, err
}

// pull is a Pull at work.
type pull struct {
	h        *Hub
	progress func(Progress)
	r        *repository // nil until the hub has answered
	commit   string
	files    []File
	now      Progress
}

func (p *pull) run(ctx context.Context, n Name) (Model, error) {
	chosen, err := p.ask(ctx, n)
	if err != nil {
		return Model{}, err
	}
	p.now = Progress{Model: nameOf(n.Repo, p.files, chosen[0].Path)}
	wanted := append(slices.Clip(chosen), p.h.along(p.files, chosen[0].Path)...)
	if err := p.room(wanted); err != nil {
		return Model{}, err
	}
	for _, f := range wanted {
		if err := p.file(ctx, f); err != nil {
			return Model{}, err
		}
	}
	if err := p.r.write("refs/main", []byte(p.commit)); err != nil {
		return Model{}, err
	}
	_, whole := p.r.complete(p.commit, wanted[len(chosen)-1:]) // links what was brought along next to the model
	m, ok := p.r.complete(p.commit, chosen)
	if !ok || !whole {
		return m, fmt.Errorf("%s was downloaded, but is gone from %s; another program removes files there", n, p.h.o.Folder)
	}
	m.Name = p.now.Model
	return m, nil
}

// ask asks the hub for the repository's files, keeps the list, and returns the files of the model.
func (p *pull) ask(ctx context.Context, n Name) ([]File, error) {
	var err error
	if p.commit, err = p.h.commit(ctx, n.Repo); err != nil {
		return nil, err
	}
	files, whole, err := p.h.tree(ctx, n.Repo, p.commit)
	if err != nil {
		return nil, err
	}
	p.files = files
	chosen, _, err := choose(files, n)
	var none *errNoChoice
	if errors.As(err, &none) {
		return nil, failed(ErrNotFound, "%s", none.says)
	}
	if err != nil {
		return nil, err
	}
	if p.r, err = p.h.create(n.Repo); err != nil {
		return nil, err
	}
	if whole { // huggingface_hub takes the list for the repository's
		b, err := encodeTree(files)
		if err != nil {
			return nil, err
		}
		if err := p.r.write("trees/"+p.commit+".json", b); err != nil {
			return nil, err
		}
	}
	return chosen, nil
}

// room returns an error if the disk has no room for the download, and counts the present bytes.
func (p *pull) room(chosen []File) error {
	for _, f := range chosen {
		p.now.Total += f.Size
		if _, _, ok := p.r.found(p.commit, f); ok {
			p.now.Done += f.Size
		} else {
			p.now.Done += p.r.partly(f)
		}
	}
	p.progress(p.now)
	left := p.now.Total - p.now.Done
	free, err := hw.FreeDisk(p.h.o.Folder)
	if err == nil && left > free {
		return failed(ErrNoRoom, "%s takes %s more, and the disk of %s has %s; make room, or name another folder in HF_HOME", p.now.Model, Bytes(left), p.h.o.Folder, Bytes(free))
	}
	return nil
}

// file downloads one file into the cache.
func (p *pull) file(ctx context.Context, f File) error {
	p.now.File, p.now.SHA256, p.now.FileTotal = f.Path, f.sha256(), f.Size
	others := p.now.Done
	if _, _, ok := p.r.found(p.commit, f); ok {
		others -= f.Size
	} else {
		others -= p.r.partly(f)
	}
	return p.h.fetch(ctx, p.r, p.commit, f, func(done int64) {
		p.now.FileDone, p.now.Done = done, others+done
		p.progress(p.now)
	})
}
