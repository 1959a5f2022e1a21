package hub

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// File is a file of a repository.
type File struct {
	Path string // in the repository, with slashes
	Size int64  // unknownSize if only a snapshot names the file
	OID  string // of its content, see validOID; empty if only a snapshot names the file
	xet  string // what huggingface_hub keeps of it
	git  string // Git's name for what it stores of the file: its content, or the pointer to it

	whole bool // it is named like a draft model but holds a model: see holdsModel
}

const unknownSize = -1

// defaultTags are the tags that a name without one means, best first, as in llama.cpp.
var defaultTags = []string{"Q4_K_M", "Q8_0"}

// notModels are parts of the names of files that go with a model: llama.cpp has the same. See heads, too.
var notModels = []string{"mmproj", "imatrix", "mtp-", "eagle3-", "dflash-", "dspark-"}

// isModel reports whether a file holds a model, as far as is known, and not an accessory.
func isModel(f File) bool {
	base := path.Base(f.Path)
	return f.whole || strings.HasSuffix(base, ggufSuffix) && !namesHead(base) && !slices.ContainsFunc(notModels, func(part string) bool { return strings.Contains(base, part) })
}

var splitName = regexp.MustCompile(`^(.+)-([0-9]{5})-of-([0-9]{5})\.gguf$`)

// split returns a file's place in a split model, according to its name; 1 of 1 if it says nothing.
func split(path string) (stem string, number, of int) {
	if m := splitName.FindStringSubmatch(path); m != nil {
		number, _ = strconv.Atoi(m[2]) // five digits
		of, _ = strconv.Atoi(m[3])
		if number >= 1 && number <= of {
			return m[1], number, of
		}
	}
	return strings.TrimSuffix(path, ggufSuffix), 1, 1
}

// quantName matches names of types and of mixtures of types at the end of files' names.
var quantName = regexp.MustCompile(`(?i)[-._/]((?:UD-)?(?:I?Q[0-9]\w*|TQ[0-9]\w*|MXFP[0-9]\w*|NVFP[0-9]\w*|BF16|F16|F32|FP[0-9]+))$`)

// Quant returns the quantisation in a file's name, such as Q4_K_M; empty if there is none.
func Quant(path string) string {
	stem, _, _ := split(path)
	if m := quantName.FindStringSubmatch(stem); m != nil {
		return strings.ToUpper(m[1])
	}
	return ""
}

// matches reports whether a file's path holds the tag as a whole word, in any case. llama.cpp has F16 match BF16, too.
func matches(path, tag string) bool {
	path, tag = strings.ToLower(path), strings.ToLower(tag)
	for from := 0; ; {
		i := strings.Index(path[from:], tag)
		if i < 0 {
			return false
		}
		i += from
		end := i + len(tag)
		if end < len(path) && strings.IndexByte("-./", path[end]) >= 0 && (i == 0 || strings.IndexByte("-._/", path[i-1]) >= 0) {
			return true
		}
		from = i + 1
	}
}

// errNoChoice means that a repository, as far as known here, lacks the requested files.
type errNoChoice struct{ says string }

func (e *errNoChoice) Error() string { return e.says }

// models returns the paths among files that begin a model, in order: draft models only if there are no others.
func models(files []File) []string {
	if list := firsts(files, isModel); len(list) > 0 {
		return list
	}
	return firsts(files, isHead)
}

// firsts returns the chosen paths among files that begin a model, in order.
func firsts(files []File, chosen func(File) bool) []string {
	var list []string
	for _, f := range files {
		if _, number, _ := split(f.Path); number == 1 && chosen(f) {
			list = append(list, f.Path)
		}
	}
	slices.Sort(list)
	return list
}

// choose returns the files of the model that n names among those of its repository, the first part first. usual is
// false if n leaves the choice open and none of the usual tags was found, so that more files could change it.
func choose(files []File, n Name) (chosen []File, usual bool, err error) {
	list := models(files)
	if drafts := firsts(files, isHead); n.Draft && len(drafts) > 0 {
		list = drafts
	}
	first := ""
	switch {
	case n.File != "":
		usual = true
		if i := slices.IndexFunc(files, func(f File) bool { return f.Path == n.File }); i >= 0 {
			first = n.File
			if stem, _, of := split(first); of > 1 { // any part stands for the whole
				first = fmt.Sprintf("%s-00001-of-%05d%s", stem, of, ggufSuffix)
			}
		}
	case n.Tag != "":
		usual = true
		first = firstMatch(list, n.Tag)
	default:
		for _, tag := range defaultTags {
			if first = firstMatch(list, tag); first != "" {
				usual = tag == defaultTags[0]
				break
			}
		}
		if first == "" && len(list) > 0 {
			first = list[0]
		}
	}
	if first == "" {
		return nil, false, missing(list, n)
	}
	chosen, err = parts(files, first)
	return chosen, usual, err
}

func firstMatch(paths []string, tag string) string {
	if i := slices.IndexFunc(paths, func(p string) bool { return matches(p, tag) }); i >= 0 {
		return paths[i]
	}
	return ""
}

// parts returns all files of the split model that first begins, or only first.
func parts(files []File, first string) ([]File, error) {
	byPath := make(map[string]File, len(files))
	for _, f := range files {
		byPath[f.Path] = f
	}
	stem, _, of := split(first)
	if stem+ggufSuffix == first {
		return []File{byPath[first]}, nil
	}
	var list []File
	for i := range of {
		path := fmt.Sprintf("%s-%05d-of-%05d%s", stem, i+1, of, ggufSuffix)
		f, ok := byPath[path]
		if !ok {
			return nil, &errNoChoice{fmt.Sprintf("part %d of %d is missing: %s", i+1, of, path)}
		}
		list = append(list, f)
	}
	return list, nil
}

// mostNamed bounds the list in a message.
const mostNamed = 20

// missing says that n is not among the models, and which are.
func missing(list []string, n Name) error {
	if len(list) == 0 {
		return &errNoChoice{fmt.Sprintf("%s has no GGUF file; look for a repository that has one, often with GGUF in its name, or download the folder and use powerinfer convert", n.Repo)}
	}
	var have []string
	for _, p := range list {
		name := p
		if q := Quant(p); q != "" && n.File == "" {
			name = q
		}
		if !slices.Contains(have, name) {
			have = append(have, name)
		}
	}
	what := n.Tag
	if n.File != "" {
		what = n.File
	}
	return &errNoChoice{fmt.Sprintf("%s has no %s; it has %s", n.Repo, what, listed(have))}
}

// listed joins names, at most mostNamed of them.
func listed(names []string) string {
	if more := len(names) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNamed], ", "), more)
	}
	return strings.Join(names, ", ")
}
