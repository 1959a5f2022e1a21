package hub

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// Names in a repository's folder.
const (
	folderPrefix = "models--"
	locksFolder  = ".locks"
	partial      = ".incomplete"
)

// folderName returns the name of a repository's folder.
func folderName(repo string) string { return folderPrefix + strings.ReplaceAll(repo, "/", "--") }

// repoName returns the repository of the folder with this name.
func repoName(folder string) (string, bool) {
	rest, ok := strings.CutPrefix(folder, folderPrefix)
	repo := strings.ReplaceAll(rest, "--", "/")
	return repo, ok && checkRepo(repo) == nil
}

// repository is a repository's folder in the cache.
type repository struct {
	name   string
	folder string   // for paths that are handed out
	locks  string   // of its blobs
	root   *os.Root // refuses every way out of folder
	links  bool     // names of contents are symbolic links, if the system has them
}

// open opens the folder of a repository; the error is fs.ErrNotExist if there is none.
func (h *Hub) open(repo string) (*repository, error) {
	if err := checkRepo(repo); err != nil {
		return nil, err
	}
	r := &repository{
		name: repo, folder: filepath.Join(h.o.Folder, folderName(repo)), locks: filepath.Join(h.o.Folder, locksFolder, folderName(repo)),
		links: h.o.Links,
	}
	var err error
	r.root, err = os.OpenRoot(r.folder)
	return r, err
}

// create opens the folder of a repository and makes it if necessary.
func (h *Hub) create(repo string) (*repository, error) {
	if err := checkRepo(repo); err != nil {
		return nil, err
	}
	for _, dir := range []string{filepath.Join(h.o.Folder, folderName(repo), "blobs"), filepath.Join(h.o.Folder, locksFolder, folderName(repo))} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("%w; HF_HOME names another folder for models", err)
		}
	}
	return h.open(repo)
}

func (r *repository) close() { _ = r.root.Close() }

// blob returns the name of a content's file.
func blob(oid string) string { return "blobs/" + oid }

// pointer returns the name of a commit's file.
func pointer(commit, file string) string { return "snapshots/" + commit + "/" + file }

// path returns a name in r as the system writes it.
func (r *repository) path(name string) string {
	return filepath.Join(r.folder, filepath.FromSlash(name))
}

// read returns the content of a file of at most that many bytes.
func (r *repository) read(name string, most int64) ([]byte, bool) {
	info, err := r.root.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return nil, false
	}
	b, err := r.root.ReadFile(name)
	return b, err == nil
}

// write replaces a small file; readers see the old or the new content. If several write at once, in this process or
// others, the last one wins.
func (r *repository) write(name string, data []byte) error {
	if err := r.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	temporary := name + "." + rand.Text() + ".tmp"
	err := closed(r.root.WriteFile(temporary, data, 0o644))
	if err == nil {
		err = r.rename(temporary, name)
	}
	if err != nil {
		_ = r.root.Remove(temporary)
	}
	return err
}

// rename renames a file of the repository. It tries again if a signal interrupts it.
func (r *repository) rename(from, to string) error {
	for {
		if err := r.root.Rename(from, to); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// closed returns the error of closing a file. It ignores EINTR: the file is closed then, too.
func closed(err error) error {
	if errors.Is(err, syscall.EINTR) {
		return nil
	}
	return err
}

// ref returns the commit that a branch was at when it was last asked for.
func (r *repository) ref(name string) (string, bool) {
	b, ok := r.read("refs/"+name, mostRef)
	commit := string(bytes.TrimSpace(b))
	return commit, ok && validCommit(commit)
}

// commits returns the known commits: main's first, then other branches', then the newest.
func (r *repository) commits() []string {
	var list []string
	add := func(commit string) {
		if validCommit(commit) && !slices.Contains(list, commit) {
			list = append(list, commit)
		}
	}
	if c, ok := r.ref("main"); ok {
		add(c)
	}
	_ = fs.WalkDir(r.root.FS(), "refs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if c, ok := r.ref(strings.TrimPrefix(name, "refs/")); ok {
				add(c)
			}
		}
		return nil
	})
	type dated struct {
		commit string
		at     time.Time
	}
	var others []dated
	for _, dir := range []string{"snapshots", "trees"} {
		entries, _ := fs.ReadDir(r.root.FS(), dir)
		for _, e := range entries {
			if info, err := e.Info(); err == nil {
				others = append(others, dated{strings.TrimSuffix(e.Name(), ".json"), info.ModTime()})
			}
		}
	}
	slices.SortStableFunc(others, func(a, b dated) int { return b.at.Compare(a.at) })
	for _, o := range others {
		add(o.commit)
	}
	return list
}

// list returns the files of a commit: all of them if the list was kept (exact), else those in the snapshot.
func (r *repository) list(commit string) (files []File, exact bool) {
	if b, ok := r.read("trees/"+commit+".json", mostTree); ok {
		if files, ok := decodeTree(b); ok {
			return files, true
		}
	}
	base := "snapshots/" + commit
	_ = fs.WalkDir(r.root.FS(), base, func(name string, d fs.DirEntry, err error) error {
		file := strings.TrimPrefix(name, base+"/")
		if err != nil || d.IsDir() || !validPath(file) || len(files) >= mostFiles {
			return nil
		}
		f := File{Path: file, Size: unknownSize}
		if target, err := r.root.Readlink(name); err == nil {
			if oid := path.Base(filepath.ToSlash(target)); validOID(oid) {
				f.OID = oid
			}
		}
		files = append(files, f)
		return nil
	})
	return files, false
}

// found returns where the whole content of a commit's file is: under its name, or only as a blob that is not linked
// yet.
func (r *repository) found(commit string, f File) (name string, info fs.FileInfo, ok bool) {
	names := []string{pointer(commit, f.Path)}
	if f.OID != "" {
		names = append(names, blob(f.OID))
	}
	for _, name := range names {
		info, err := r.root.Stat(name)
		if err == nil && info.Mode().IsRegular() && (f.Size == unknownSize || info.Size() == f.Size) {
			return name, info, true
		}
	}
	return "", nil, false
}

// partly returns how many bytes of an incomplete content there are.
func (r *repository) partly(f File) int64 {
	if f.OID == "" {
		return 0
	}
	info, err := r.root.Stat(blob(f.OID) + partial)
	if err != nil || !info.Mode().IsRegular() || info.Size() > f.Size {
		return 0
	}
	return info.Size()
}

// link links a blob to the name of a commit's file. Without symbolic links, as mostly on Windows, the content moves
// there if no other name had it, and is copied otherwise, as in huggingface_hub.
func (r *repository) link(commit string, f File, fresh bool) error {
	name := pointer(commit, f.Path)
	if err := r.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	if _, err := r.root.Lstat(name); err == nil { // it has another content, or leads to nothing
		if err := r.root.Remove(name); err != nil {
			return err
		}
	}
	if r.links {
		up := strings.Repeat("../", strings.Count(name, "/"))
		err := r.root.Symlink(filepath.FromSlash(up+blob(f.OID)), name)
		if err == nil || errors.Is(err, fs.ErrExist) { // somebody else was faster
			return nil
		}
	}
	if fresh {
		return r.rename(blob(f.OID), name)
	}
	return r.copy(blob(f.OID), name)
}

// copy copies a file; the copy appears under its name when it is complete.
func (r *repository) copy(from, to string) error {
	src, err := r.root.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	temporary := to + partial
	dst, err := r.root.Create(temporary)
	if err != nil {
		return err
	}
	_, err = dst.ReadFrom(src)
	err = errors.Join(err, closed(dst.Close()))
	if err == nil {
		err = r.rename(temporary, to)
	}
	if err != nil {
		_ = r.root.Remove(temporary)
	}
	return err
}

// complete returns the model of those files if all exist. Blobs without a name get one, if the folder is writable.
func (r *repository) complete(commit string, files []File) (Model, bool) {
	m := Model{Repo: r.name, Commit: commit, Quant: Quant(files[0].Path), Complete: true}
	for i, f := range files {
		name, info, ok := r.found(commit, f)
		if !ok {
			return m, false
		}
		if strings.HasPrefix(name, "blobs/") {
			if r.link(commit, f, false) != nil {
				return m, false
			}
			name = pointer(commit, f.Path)
		}
		m.add(r.path(name), info.Size(), info.ModTime())
		if i == 0 {
			m.SHA256 = f.sha256()
		}
	}
	return m, true
}

// sha256 returns the hash of the content, if it is known.
func (f *File) sha256() string {
	if len(f.OID) == 64 {
		return f.OID
	}
	return ""
}

// lock returns the lock of a content; it is huggingface_hub's.
func (r *repository) lock(oid string) (*flock.Flock, error) {
	if err := os.MkdirAll(r.locks, 0o755); err != nil {
		return nil, err
	}
	return flock.New(filepath.Join(r.locks, oid+".lock")), nil
}
