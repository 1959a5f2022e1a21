package shaders

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
)

// Manifest says what the committed SPIR-V was compiled from, and how. It is manifest.json.
type Manifest struct {
	Compiler string   `json:"compiler"` // its version, as it prints it
	Flags    []string `json:"flags"`
	Shaders  []Shader `json:"shaders"` // by name
}

// Shader is one compiled source.
type Shader struct {
	Name    string   `json:"name"` // of the .comp and the .spv
	Sources []Source `json:"sources"`
	SPIRV   string   `json:"spirv"` // SHA-256
}

// Source is a file that went into a shader: the .comp first, then what it includes, by name.
type Source struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
}

// Flags returns what shaders are compiled with: without names, which would be a sixth of all.
func Flags() []string { return []string{"-V", "--target-env", "vulkan1.2", "-g0"} }

// Sum returns data's SHA-256 in hex.
func Sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

var include = regexp.MustCompile(`(?m)^\s*#\s*include\s+"([^"]+)"`)

// Sources are name.comp and all it includes.
func Sources(files fs.FS, name string) ([]Source, error) {
	var all []Source
	next := []string{name + ".comp"}
	for len(next) > 0 {
		file := next[0]
		next = next[1:]
		if slices.ContainsFunc(all, func(s Source) bool { return s.File == file }) {
			continue
		}
		data, err := fs.ReadFile(files, path.Clean(file))
		if err != nil {
			return nil, fmt.Errorf("sources of %s: %w", name, err)
		}
		all = append(all, Source{file, Sum(data)})
		for _, m := range include.FindAllSubmatch(data, -1) {
			next = append(next, string(m[1]))
		}
	}
	slices.SortFunc(all[1:], func(a, b Source) int {
		if a.File < b.File {
			return -1
		}
		return 1
	})
	return all, nil
}
