package powerinfer

import (
	"context"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/hub"
)

// LocalModel is a model on this machine.
type LocalModel struct {
	Name     string // the name that Pull takes
	Path     string // the path that Open takes
	Size     int64  // bytes
	Quant    string // the quantisation according to the name, such as Q4_K_M; empty: the name has none
	Modified time.Time
}

// Pull returns the path of a model of the Hugging Face hub. It downloads the model unless the cache has it. name is
// user/repo, user/repo:Q4_K_M, user/repo/file.gguf, or the address of any of these. The cache is the one that Python's
// huggingface_hub and llama.cpp use, and their environment variables count, such as HF_HOME, HF_TOKEN and
// HF_HUB_OFFLINE. Pull continues an interrupted download. progress gets the number of bytes so far;
// it may be nil.
func Pull(ctx context.Context, name string, progress func(done, total int64)) (string, error) {
	n, err := hub.ParseName(name)
	if err != nil {
		return "", tell(err)
	}
	h, err := environment()
	if err != nil {
		return "", err
	}
	var told func(hub.Progress)
	if progress != nil {
		told = func(p hub.Progress) { progress(p.Done, p.Total) }
	}
	m, err := h.Use(ctx, n, told)
	if err != nil {
		return "", tell(err)
	}
	return m.Path(), nil
}

// List returns the complete models in Pull's cache and in folders.
func List(folders ...string) ([]LocalModel, error) {
	h, err := environment()
	if err != nil {
		return nil, err
	}
	models, err := h.List(folders...)
	if err != nil {
		return nil, err
	}
	var all []LocalModel
	for _, m := range models {
		if m.Complete {
			all = append(all, LocalModel{Name: m.Name, Path: m.Path(), Size: m.Size, Quant: m.Quant, Modified: m.Modified})
		}
	}
	return all, nil
}

// environment returns the hub according to the environment's variables.
func environment() (*hub.Hub, error) {
	o, err := hub.Environment()
	if err != nil {
		return nil, err
	}
	return hub.New(o)
}
