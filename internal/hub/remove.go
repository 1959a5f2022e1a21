package hub

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// Removal lists what Remove deleted, or would delete.
type Removal struct {
	Models []string // names of models, complete or not
	Whole  bool     // the repository's whole folder goes, with files that are no models
	Bytes  int64
}

// Remove takes a model out of the cache: all commits' links to its files, and the contents that nothing else of the
// repository uses. A name without tag and file is the whole repository.
func (h *Hub) Remove(ctx context.Context, n Name) (Removal, error) {
	return h.remove(ctx, n, true)
}

// Removable returns what Remove would take away, and takes nothing.
func (h *Hub) Removable(ctx context.Context, n Name) (Removal, error) {
	return h.remove(ctx, n, false)
}

func (h *Hub) remove(ctx context.Context, n Name, really bool) (Removal, error) {
	r, err := h.open(n.Repo)
	if errors.Is(err, fs.ErrNotExist) {
		return Removal{}, h.notCached(n)
	}
	if err != nil {
		return Removal{}, err
	}
	defer r.close()
	if n.Tag == "" && n.File == "" {
		return h.removeRepo(r, really)
	}
	return h.removeModel(ctx, r, n, really)
}

// contents returns the sizes of r's contents: blobs, whole or partial, and files in snapshots themselves.
func (r *repository) contents() map[string]int64 {
	sizes := map[string]int64{}
	for _, dir := range []string{"blobs", "snapshots"} {
		_ = fs.WalkDir(r.root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			if info, err := d.Info(); err == nil {
				sizes[name] = info.Size()
			}
			return nil
		})
	}
	return sizes
}

func (h *Hub) removeRepo(r *repository, really bool) (Removal, error) {
	gone := Removal{Whole: true}
	for _, m := range r.models() {
		gone.Models = append(gone.Models, m.Name)
	}
	var oids []string
	for name, size := range r.contents() {
		gone.Bytes += size
		if oid := strings.TrimSuffix(strings.TrimPrefix(name, "blobs/"), partial); validOID(oid) {
			oids = append(oids, oid)
		}
	}
	if !really {
		return gone, nil
	}
	release, err := r.lockAll(oids)
	if err != nil {
		return Removal{}, err
	}
	defer release()
	root, err := os.OpenRoot(h.o.Folder)
	if err != nil {
		return Removal{}, err
	}
	defer root.Close()
	r.close() // Windows removes no open folder
	return gone, root.RemoveAll(folderName(r.name))
}

// lockAll locks contents, so that nobody downloads them while they are removed, until release.
func (r *repository) lockAll(oids []string) (release func(), err error) {
	var held []*flock.Flock
	release = func() {
		for _, l := range held {
			_ = os.Remove(strings.TrimSuffix(l.Path(), ".lock") + ".etag")
			_ = l.Close() // the file stays: somebody may wait for it
		}
	}
	for _, oid := range oids {
		l, err := r.lock(oid)
		if err == nil {
			var ok bool
			if ok, err = l.TryLock(); err == nil && !ok {
				err = failed(ErrInUse, "%s is being downloaded by another process; end that, and try again", r.name)
			}
		}
		if err != nil {
			for _, l := range held {
				_ = l.Close()
			}
			return nil, err
		}
		held = append(held, l)
	}
	return release, nil
}

// entry is a file of a snapshot.
type entry struct {
	name string // in the repository's folder
	oid  string // of the blob it leads to; empty if it is a file itself
}

// entries returns the files of all snapshots.
func (r *repository) entries() []entry {
	var list []entry
	_ = fs.WalkDir(r.root.FS(), "snapshots", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		e := entry{name: name}
		if target, err := r.root.Readlink(name); err == nil {
			e.oid = path.Base(filepath.ToSlash(target))
		}
		list = append(list, e)
		return nil
	})
	return list
}

func (h *Hub) removeModel(_ context.Context, r *repository, n Name, really bool) (Removal, error) {
	var gone Removal
	paths, oids := map[string]bool{}, map[string]bool{} // of the model's files, in any commit
	for _, commit := range r.commits() {
		files, _ := r.list(commit)
		for _, f := range named(files, n) {
			if _, _, ok := r.found(commit, f); !ok && r.partly(f) == 0 {
				continue
			}
			paths[f.Path] = true
			if validOID(f.OID) {
				oids[f.OID] = true
			}
			if _, number, _ := split(f.Path); number == 1 {
				if name := nameOf(r.name, files, f.Path); !slices.Contains(gone.Models, name) {
					gone.Models = append(gone.Models, name)
				}
			}
		}
	}
	if len(paths) == 0 {
		return gone, h.notCached(n)
	}
	var names []string // to remove
	left := 0
	for _, e := range r.entries() {
		_, file, _ := strings.Cut(strings.TrimPrefix(e.name, "snapshots/"), "/")
		of, _, _ := strings.Cut(file, gguf.NeuronsSuffix) // made from the model, or a part of it
		if paths[file] || paths[of] {
			names = append(names, e.name)
			if validOID(e.oid) {
				oids[e.oid] = true
			}
		}
	}
	for _, e := range r.entries() {
		if !slices.Contains(names, e.name) {
			left++
			delete(oids, e.oid)
		}
	}
	var contents []string
	for oid := range oids {
		names = append(names, blob(oid), blob(oid)+partial)
		contents = append(contents, oid)
	}
	sizes := r.contents()
	for _, name := range names {
		gone.Bytes += sizes[name]
	}
	if !really {
		return gone, nil
	}
	release, err := r.lockAll(contents)
	if err != nil {
		return Removal{}, err
	}
	defer release()
	for _, name := range names {
		if err := r.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return gone, err
		}
		for dir := path.Dir(name); strings.HasPrefix(dir, "snapshots/") && r.root.Remove(dir) == nil; { // empty folders
			dir = path.Dir(dir)
		}
	}
	if left == 0 && len(r.contents()) == 0 { // lists and references alone are useless
		release()
		_, err := h.removeRepo(r, true)
		return gone, err
	}
	return gone, nil
}

// named returns the files of the model that n names, whether all parts are known or not.
func named(files []File, n Name) []File {
	first := n.File
	if first == "" {
		first = firstMatch(models(files), n.Tag)
	}
	stem, _, of := split(first)
	var list []File
	for _, f := range files {
		if s, _, parts := split(f.Path); first != "" && s == stem && parts == of && strings.HasSuffix(f.Path, ggufSuffix) {
			list = append(list, f)
		}
	}
	return list
}
