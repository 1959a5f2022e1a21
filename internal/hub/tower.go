package hub

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// towerMark is in the names of files of towers, which show pictures to a model, as in llama.cpp.
const towerMark = "mmproj"

// towerQuants are the types of towers, best first: those of 16 bits lose nothing that matters.
var towerQuants = []string{"F16", "BF16", "F32", "Q8_0"}

func isTower(path string) bool {
	base := path[strings.LastIndexByte(path, '/')+1:]
	return strings.Contains(strings.ToLower(base), towerMark) && strings.HasSuffix(base, ggufSuffix)
}

// towerOf returns the repository's file with the tower of a model; ok is false if there is none.
func towerOf(files []File, model string) (tower File, ok bool) {
	var list []string
	for _, f := range files {
		if isTower(f.Path) {
			list = append(list, f.Path)
		}
	}
	name := bestTower(list, model)
	i := slices.IndexFunc(files, func(f File) bool { return f.Path == name })
	if i < 0 {
		return File{}, false
	}
	return files[i], true
}

// bestTower returns the path of the best of one model's towers: in the model's folder before others, then by type. It
// is empty if there is none.
func bestTower(towers []string, model string) string {
	dir := func(path string) string { return path[:strings.LastIndexByte(path, '/')+1] }
	rank := func(path string) int {
		n := slices.Index(towerQuants, Quant(path))
		if n < 0 {
			n = len(towerQuants)
		}
		if dir(path) != dir(model) {
			n += 2 * len(towerQuants)
		}
		return n
	}
	if len(towers) == 0 {
		return ""
	}
	return slices.MinFunc(towers, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b)) })
}

// TowerBeside returns the path of the file with a model's tower next to the model's file, or where that is a symbolic
// link next to what it names; or nothing. The tower is named after the model, or is the only kind there if the folder has
// no other model.
func TowerBeside(model string) string {
	tower := towerIn(model)
	if tower != "" {
		return tower
	}
	if target, err := filepath.EvalSymlinks(model); err == nil && target != model {
		return towerIn(target)
	}
	return ""
}

// towerIn returns the path of the tower in the folder of the model's path.
func towerIn(model string) string {
	entries, err := os.ReadDir(filepath.Dir(model))
	if err != nil {
		return ""
	}
	var towers, named []string
	others := map[string]bool{} // models by the part of their names without the type
	for _, e := range entries {
		switch name := e.Name(); {
		case isTower(name):
			towers = append(towers, name)
			if towerFits(name, filepath.Base(model)) {
				named = append(named, name)
			}
		case isModel(name):
			others[bare(name)] = true
		}
	}
	named = nearest(named, filepath.Base(model))
	if len(named) == 0 && len(others) <= 1 {
		named = towers
	}
	if name := bestTower(named, filepath.Base(model)); name != "" {
		return filepath.Join(filepath.Dir(model), name)
	}
	return ""
}

// nearest returns those towers with the name, without its type, that is nearest to the model's own: a fine-tuned model
// has its base's name and more, and may have a tower of its own.
func nearest(towers []string, model string) (near []string) {
	own, least := len(bare(model)), 0
	for _, t := range towers {
		far := max(own-len(bare(t)), len(bare(t))-own)
		if len(near) == 0 || far < least {
			near, least = nil, far
		}
		if far == least {
			near = append(near, t)
		}
	}
	return near
}

// bare returns the part of a file's name that identifies the model, in small letters and digits.
func bare(name string) string {
	stem, _, _ := split(name)
	if m := quantName.FindStringSubmatch(stem); m != nil {
		stem = stem[:len(stem)-len(m[0])]
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ReplaceAll(strings.ToLower(stem), towerMark, ""))
}

// towerFits reports whether a tower's file is named after a model's.
func towerFits(tower, model string) bool {
	t, m := bare(tower), bare(model)
	return t != "" && t != "model" && (strings.HasPrefix(m, t) || strings.HasPrefix(t, m))
}
