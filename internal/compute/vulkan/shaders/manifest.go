package shaders

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
)

// Manifest says what the committed SPIR-V was compiled from, and how. It is manifest.json.
type Manifest struct {
	Compiler string   `json:"compiler"` // the version of the compiler of most shaders, as it prints it
	Flags    []string `json:"flags"`
	Shaders  []Shader `json:"shaders"` // by name
}

// Shader is one compiled source.
type Shader struct {
	Name     string   `json:"name"`               // of the .comp and the .spv.gz
	Compiler string   `json:"compiler,omitempty"` // that compiled it, and how, if not as the manifest says
	Flags    []string `json:"flags,omitempty"`
	Sources  []Source `json:"sources"`
	SPIRV    string   `json:"spirv"` // SHA-256 of the packed code
}

// Source is a file that went into a shader: the .comp first, then what it includes, by name.
type Source struct {
	File   string `json:"file"`
	SHA256 string `json:"sha256"`
}

// Need is what a shader's source asks of its compiler.
type Need struct {
	Glslang int    // its least major version
	Target  string // what it compiles for
}

// Most is what most shaders need.
func Most() Need { return Need{Target: "vulkan1.2"} }

// newer lists the extensions that glslang of Debian 12, by which most shaders are compiled, does not know.
var newer = map[string]Need{
	"GL_KHR_cooperative_matrix": {13, "vulkan1.2"},
	"GL_NV_cooperative_matrix2": {15, "vulkan1.3"},
}

var extension = regexp.MustCompile(`(?m)^\s*#\s*extension\s+(\w+)`)

// Needs returns what name.comp asks of its compiler. Extensions that only newer compilers know are asked for by the
// .comp itself.
func Needs(files fs.FS, name string) (Need, error) {
	n := Most()
	source, err := fs.ReadFile(files, name+".comp")
	for _, m := range extension.FindAllSubmatch(source, -1) {
		if e, ok := newer[string(m[1])]; ok {
			n.Glslang, n.Target = max(n.Glslang, e.Glslang), max(n.Target, e.Target)
		}
	}
	return n, err
}

// Flags returns what shaders are compiled with: without names, which would be a sixth of all.
func (n Need) Flags() []string { return []string{"-V", "--target-env", n.Target, "-g0"} }

var glslang = regexp.MustCompile(`Glslang Version: \d+:((\d+)\.\S+)`)

// Version returns a compiler's version as the manifest has it, and its major number, from what --version prints.
func Version(printed []byte) (version string, major int, err error) {
	m := glslang.FindSubmatch(printed)
	if m == nil {
		return "", 0, fmt.Errorf("that is no version of glslang: %.80q", printed)
	}
	major, err = strconv.Atoi(string(m[2]))
	return string(m[0]), major, err
}

// Compiler returns the name of the compiler, glslangValidator of Debian's glslang-tools unless the environment's GLSLANG
// names another.
func Compiler() string { return cmp.Or(os.Getenv("GLSLANG"), "glslangValidator") }

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
