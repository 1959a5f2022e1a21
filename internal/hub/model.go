package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// Model is a model of the cache or of a folder of models.
type Model struct {
	Name     string    `json:"name"`             // ParseName reads the name of a model of the hub
	Repo     string    `json:"repo,omitempty"`   // empty for a model of a folder
	Commit   string    `json:"commit,omitempty"` // of the repository
	Files    []string  `json:"files"`            // paths, the first part first
	Quant    string    `json:"quant"`            // from its file's name; empty if that has none
	SHA256   string    `json:"sha256,omitempty"` // of the first file, if known
	Size     int64     `json:"size"`             // bytes of all files
	Have     int64     `json:"have"`             // bytes of them that are here
	Modified time.Time `json:"modified"`
	Complete bool      `json:"complete"`
}

// Path returns the first file, which opens the model.
func (m *Model) Path() string { return m.Files[0] }

// add counts an existing file.
func (m *Model) add(path string, size int64, modified time.Time) {
	m.Files = append(m.Files, path)
	m.Size += size
	m.Have += size
	if modified.After(m.Modified) {
		m.Modified = modified
	}
}

// nameOf returns a name for the model that begins with path among files; ParseName finds it again.
func nameOf(repo string, files []File, path string) string {
	if q := Quant(path); q != "" {
		if firstMatch(models(files), q) == path {
			return repo + ":" + q
		}
	}
	return repo + "/" + path
}

// List returns the models of the cache, also incomplete ones, and of the folders, by their names.
func (h *Hub) List(folders ...string) ([]Model, error) {
	entries, err := os.ReadDir(h.o.Folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []Model
	for _, e := range entries {
		repo, ok := repoName(e.Name())
		if !ok {
			continue
		}
		r, err := h.open(repo)
		if err != nil {
			continue // a file, or a folder that is not ours to read
		}
		list = append(list, r.models()...)
		r.close()
	}
	for _, dir := range folders {
		more, err := Folder(dir)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	slices.SortStableFunc(list, func(a, b Model) int { return strings.Compare(strings.ToLower(a.Name), strings.ToLower(b.Name)) })
	return list, nil
}

// Lookup returns a complete model by its name: from the folders, else from the cache.
func (h *Hub) Lookup(ctx context.Context, name string, folders ...string) (Model, error) {
	for _, dir := range folders {
		list, err := Folder(dir)
		if err != nil {
			return Model{}, err
		}
		if i := slices.IndexFunc(list, func(m Model) bool { return m.Name == name }); i >= 0 {
			if !list[i].Complete {
				return list[i], failed(ErrNotFound, "%s in %s lacks some of its parts", name, dir)
			}
			return list[i], nil
		}
	}
	n, err := ParseName(name)
	if err != nil {
		return Model{}, failed(ErrNotFound, "%v", err)
	}
	return h.Resolve(ctx, n)
}

// models returns those with any file in the cache, each of the newest commit that has it.
func (r *repository) models() []Model {
	var list []Model
	for _, commit := range r.commits() {
		files, _ := r.list(commit)
		for _, first := range models(files) {
			m, some := r.state(commit, files, first)
			if !some {
				continue
			}
			i := slices.IndexFunc(list, func(o Model) bool { return o.Name == m.Name })
			switch {
			case i < 0:
				list = append(list, m)
			case !list[i].Complete && m.Complete: // a newer one is on its way
				list[i] = m
			}
		}
	}
	return list
}

// state returns the model of a commit that begins with first, as far as it is here; some is false if nothing is.
func (r *repository) state(commit string, files []File, first string) (m Model, some bool) {
	m = Model{Name: nameOf(r.name, files, first), Repo: r.name, Commit: commit, Quant: Quant(first), Complete: true}
	list, err := parts(files, first)
	if err != nil { // a snapshot without all parts, and no list with their sizes
		m.Complete = false
		stem, _, of := split(first)
		for _, f := range files {
			if s, _, n := split(f.Path); s == stem && n == of {
				list = append(list, f)
			}
		}
	}
	for _, f := range list {
		if m.SHA256 == "" {
			m.SHA256 = f.sha256()
		}
		name, info, ok := r.found(commit, f)
		if !ok {
			part := r.partly(f)
			some = some || part > 0
			m.Complete = false
			m.Files = append(m.Files, r.path(pointer(commit, f.Path)))
			m.Have += part
			m.Size += max(f.Size, 0)
			continue
		}
		some = true
		if strings.HasPrefix(name, "blobs/") {
			name = pointer(commit, f.Path) // where Resolve links it
		}
		m.add(r.path(name), info.Size(), info.ModTime())
	}
	return m, some
}

// folderDepth is the number of levels below a folder of models that are searched for files.
const folderDepth = 3

// Folder returns the models of a folder: its GGUF files, and those in its folders, named by their path without .gguf.
// Names come only from existing files.
func Folder(dir string) ([]Model, error) {
	switch info, err := os.Stat(dir); {
	case err != nil:
		return nil, fmt.Errorf("the folder of models cannot be read: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("%s is not a folder; name the folder that has the models", dir)
	}
	root := dir
	if to, err := filepath.EvalSymlinks(dir); err == nil { // WalkDir does not follow a link
		root = to
	}
	var files []File
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			if name == root {
				return err
			}
			return nil // a folder in it that may not be read
		}
		below, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		below = filepath.ToSlash(below)
		hidden := strings.HasPrefix(d.Name(), ".") && below != "."
		if d.IsDir() {
			if hidden || strings.Count(below, "/") >= folderDepth {
				return fs.SkipDir
			}
			return nil
		}
		if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && !hidden && strings.HasSuffix(below, ggufSuffix) {
			files = append(files, File{Path: below, Size: info.Size(), whole: holdsModel(name)})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("the folder of models cannot be read: %w", err)
	}
	var list []Model
	for _, first := range models(files) {
		list = append(list, folderModel(dir, files, first))
	}
	return list, nil
}

func folderModel(dir string, files []File, first string) Model {
	stem, _, _ := split(first)
	m := Model{Name: stem, Quant: Quant(first), Complete: true}
	list, err := parts(files, first)
	if err != nil {
		m.Complete = false
		list = []File{{Path: first}}
	}
	for _, f := range list {
		path := filepath.Join(dir, filepath.FromSlash(f.Path))
		if info, err := os.Stat(path); err == nil {
			m.add(path, info.Size(), info.ModTime())
		}
	}
	if len(m.Files) == 0 {
		m.Files, m.Complete = []string{filepath.Join(dir, filepath.FromSlash(first))}, false
	}
	return m
}

// Details is the information in a model's file.
type Details struct {
	Architecture string `json:"architecture"`
	Title        string `json:"title,omitempty"`
	Parameters   int64  `json:"parameters"`
	Quant        string `json:"quant"` // the type that most weights have
	Context      uint64 `json:"context"`
	Embedding    uint64 `json:"embedding"`
	Layers       uint64 `json:"layers"`
	Template     bool   `json:"chat_template"`
	Licence      string `json:"license,omitempty"`
}

// Describe reads Details from f and leaves out what the file lacks or has in a wrong type.
func Describe(f *gguf.File) Details {
	text := func(key string) string { s, _, _ := f.String(key); return s }
	number := func(key string) uint64 { n, _, _ := f.Uint(key); return n }
	d := Details{Architecture: text("general.architecture"), Title: text("general.name"), Licence: text("general.license")}
	d.Context = number(d.Architecture + ".context_length")
	d.Embedding = number(d.Architecture + ".embedding_length")
	d.Layers = number(d.Architecture + ".block_count")
	d.Template = text("tokenizer.chat_template") != ""
	byType := map[string]int64{}
	for _, t := range f.Tensors {
		d.Parameters += int64(t.Elems())
		byType[t.Type.String()] += int64(t.Elems())
	}
	for name, n := range byType {
		if most := byType[d.Quant]; n > most || n == most && name < d.Quant {
			d.Quant = name
		}
	}
	return d
}
