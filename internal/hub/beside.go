package hub

import (
	"cmp"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// companion is a kind of file that goes with a model. Names tell which file is one.
type companion struct {
	arch  string         // a draft model's general.architecture
	word  *regexp.Regexp // in the names of such files
	of    *regexp.Regexp // what their names also contain; nil: anything
	types []string       // best first; empty: no type in the name
}

// tower is the kind that shows pictures to a model. Types of 16 bits lose nothing that matters.
var tower = companion{word: regexp.MustCompile(`(?i)mmproj`), types: []string{"F16", "BF16", "F32", "Q8_0"}}

// heads are the kinds of draft models that compute with the model's own states, best first, as makers name them: Gemma
// 4's as google's (gemma-4-E4B-it-assistant), ggml-org's (mtp-gemma-4-E4B-it) or unsloth's
// (gemma-4-E4B-it-MTP), others as the methods are called. A repository's choice of type comes first, then the types that
// draft almost as well as all bits and are read faster.
var heads = []companion{
	{arch: "gemma4-assistant", word: word("mtp|assistant"), of: regexp.MustCompile(`(?i)gemma-?4`), types: headTypes},
	{arch: "dflash", word: word("dflash"), types: headTypes},
	{arch: "eagle3", word: word("eagle-?3"), types: headTypes},
}

var headTypes = []string{"", "Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0", "BF16", "F16", "F32"}

// word returns an expression for whole words of a file's name, which pattern matches in any case.
func word(pattern string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:^|[-._])(?:` + pattern + `)(?:[-._]|$)`)
}

func (k *companion) is(name string) bool {
	base := path.Base(name)
	return strings.HasSuffix(base, ggufSuffix) && k.word.MatchString(base) && (k.of == nil || k.of.MatchString(base))
}

// namesHead reports whether a file is named like a draft model.
func namesHead(name string) bool {
	return slices.ContainsFunc(heads, func(k companion) bool { return k.is(name) })
}

// isHead reports whether a file holds a draft model, as far as is known.
func isHead(f File) bool { return namesHead(f.Path) && !f.whole }

// holdsModel reports whether the file at path is named like a draft model but holds a model, such as a fine-tune of Gemma
// 4 that is called an assistant. The file's architecture decides.
func holdsModel(path string) bool {
	if !namesHead(path) {
		return false
	}
	arch := gguf.Architecture(path)
	return arch != "" && !slices.ContainsFunc(heads, func(k companion) bool { return k.arch == arch })
}

// among returns the file of the kind that belongs to a model, among the files of a folder or a repository: one named
// after the model, else the best. strict requires the name if there are other models. It is empty if there is none.
func (k *companion) among(files []File, model string, strict bool) string {
	var all, named []string
	others := map[string]bool{} // models by the part of their names without the type
	for _, f := range files {
		switch {
		case k.is(f.Path) && !f.whole:
			all = append(all, f.Path)
			if k.fits(f.Path, model) {
				named = append(named, f.Path)
			}
		case isModel(f):
			others[k.bare(f.Path)] = true
		}
	}
	if named = k.nearest(named, model); len(named) > 0 {
		return k.best(named, model)
	}
	if strict && len(others) > 1 {
		return ""
	}
	return k.best(all, model)
}

// best returns the best of one model's files of the kind: in the model's folder before others, then by type. It is empty
// if there is none.
func (k *companion) best(files []string, model string) string {
	rank := func(name string) int {
		n := slices.Index(k.types, Quant(name))
		if n < 0 {
			n = len(k.types)
		}
		if path.Dir(name) != path.Dir(model) {
			n += 2 * len(k.types)
		}
		return n
	}
	if len(files) == 0 {
		return ""
	}
	return slices.MinFunc(files, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b)) })
}

// nearest returns the files with names, without types, nearest to the model's: a fine-tuned model's name extends its
// base's, and it may have its own files.
func (k *companion) nearest(files []string, model string) (near []string) {
	own, least := len(k.bare(model)), 0
	for _, f := range files {
		far := max(own-len(k.bare(f)), len(k.bare(f))-own)
		if len(near) == 0 || far < least {
			near, least = nil, far
		}
		if far == least {
			near = append(near, f)
		}
	}
	return near
}

// bare returns the part of a file's name that identifies the model, in small letters and digits.
func (k *companion) bare(name string) string {
	stem, _, _ := split(path.Base(name))
	if m := quantName.FindStringSubmatch(stem); m != nil {
		stem = stem[:len(stem)-len(m[0])]
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(k.word.ReplaceAllString(stem, "-")))
}

// fits reports whether a file of the kind is named after a model.
func (k *companion) fits(file, model string) bool {
	f, m := k.bare(file), k.bare(model)
	return f != "" && f != "model" && (strings.HasPrefix(m, f) || strings.HasPrefix(f, m))
}

// along returns the files of a repository that Use and Pull bring along with a model.
func (h *Hub) along(files []File, model string) (list []File) {
	add := func(k *companion) bool {
		name := k.among(files, model, false)
		if name != "" {
			list = append(list, files[slices.IndexFunc(files, func(f File) bool { return f.Path == name })])
		}
		return name != ""
	}
	if h.o.Towers {
		add(&tower)
	}
	if h.o.Heads && !namesHead(model) {
		for i := range heads {
			if add(&heads[i]) {
				break
			}
		}
	}
	return list
}

// TowerBeside returns the path of the file next to a model's with its tower, or nothing: one that is named after the
// model, or the only kind there if the folder has no other model. If the model's path is a symbolic link, the tower may
// also be next to the file that it names.
func TowerBeside(model string) string { return tower.beside(model) }

// beside returns the path of the file of the kind next to a model's file, or next to its link's target, or nothing.
func (k *companion) beside(model string) string {
	places := []string{model}
	if target, err := filepath.EvalSymlinks(model); err == nil && target != model {
		places = append(places, target)
	}
	for _, at := range places {
		dir, files, own := beside(at)
		if name := k.among(files, own, true); name != "" {
			return filepath.Join(dir, filepath.FromSlash(name))
		}
	}
	return ""
}

// HeadsBeside returns the paths of the files next to a model's that are named like its draft models and hold no model of
// another kind, best first, at most one of each kind.
func HeadsBeside(model string) (list []string) {
	for i := range heads {
		if path := heads[i].beside(model); path != "" {
			list = append(list, path)
		}
	}
	return list
}

// beside returns a model's folder, its files, and the model's own file, by their paths in the folder. In the hub's
// cache the folder is that of the repository's commit, with its subfolders.
func beside(model string) (dir string, files []File, own string) {
	dir, own = filepath.Dir(model), filepath.Base(model)
	add := func(dir, name string) {
		files = append(files, File{Path: name, whole: holdsModel(filepath.Join(dir, filepath.FromSlash(name)))})
	}
	if _, err := os.Stat(model); err != nil { // as of the embedded model
		return dir, nil, own
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return dir, nil, own
	}
	for up := dir; filepath.Dir(up) != up; up = filepath.Dir(up) {
		if filepath.Base(filepath.Dir(up)) != "snapshots" || !validCommit(filepath.Base(up)) {
			continue
		}
		within, err := filepath.Rel(up, model)
		if err != nil {
			break
		}
		_ = fs.WalkDir(os.DirFS(up), ".", func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				add(up, name)
			}
			return nil
		})
		return up, files, filepath.ToSlash(within)
	}
	for _, e := range entries {
		add(dir, e.Name())
	}
	return dir, files, own
}
