// Command compile writes the shaders' table of types, compiles every .comp of the working directory to SPIR-V and
// writes the manifest. It needs glslangValidator: Debian 12's for most shaders, and a newer one, which the environment's
// GLSLANG names, for those with extensions that Debian's does not know. Either leaves the other's shaders as they are.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/shaders"
)

func main() {
	if err := compile(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// compiler is the installed one.
type compiler struct {
	version string
	major   int
	newer   bool // it is for the shaders that need it, and no others
	before  shaders.Manifest
}

// newest is the version of glslang from which on a compiler is taken for the shaders that need it: Debian 12's is 12.
const newest = 13

func compile() error {
	printed, err := exec.Command(shaders.Compiler(), "--version").Output()
	if err != nil {
		return fmt.Errorf("%s (of glslang-tools): %w", shaders.Compiler(), err)
	}
	var c compiler
	if c.version, c.major, err = shaders.Version(printed); err != nil {
		return err
	}
	c.newer = c.major >= newest
	data, err := os.ReadFile("manifest.json")
	if err == nil {
		err = json.Unmarshal(data, &c.before)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("manifest.json: %w", err)
	}
	m := shaders.Manifest{Compiler: c.version, Flags: shaders.Most().Flags()}
	if c.newer {
		m.Compiler = c.before.Compiler
	}
	if err := os.WriteFile(shaders.TypesFile, shaders.Types(), 0o644); err != nil {
		return err
	}
	files, err := filepath.Glob("*.comp") // in order
	if err != nil {
		return err
	}
	var failed []error
	for _, file := range files {
		s, err := c.one(strings.TrimSuffix(file, ".comp"))
		failed = append(failed, err)
		if s.SPIRV != "" {
			m.Shaders = append(m.Shaders, s)
		}
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	out, err := json.MarshalIndent(m, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile("manifest.json", append(out, '\n'), 0o644)
}

// one compiles a shader in place, if this compiler can, or else returns the entry of the one that another compiler
// made.
func (c *compiler) one(name string) (shaders.Shader, error) {
	s := shaders.Shader{Name: name}
	sources, err := shaders.Sources(os.DirFS("."), name)
	if err != nil {
		return s, err
	}
	need, err := shaders.Needs(os.DirFS("."), name)
	if err != nil {
		return s, err
	}
	if c.newer != (need.Glslang > 0) || c.major < need.Glslang {
		return c.kept(name, sources, need), nil
	}
	s.Sources = sources
	if c.newer {
		s.Compiler, s.Flags = c.version, need.Flags()
	}
	temporary := name + ".spv.tmp"
	defer os.Remove(temporary)
	cmd := exec.Command(shaders.Compiler(), append(need.Flags(), "-o", temporary, name+".comp")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return s, fmt.Errorf("%s", out)
	}
	data, err := os.ReadFile(temporary)
	if err == nil {
		data, err = shaders.Khronos(data)
	}
	if err == nil {
		err = write(name+shaders.Extension, data)
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	s.SPIRV = shaders.Sum(data)
	return s, nil
}

// write writes SPIR-V to a file, unless the file holds it: other versions of Go may pack it otherwise.
func write(path string, spirv []byte) error {
	if old, err := os.ReadFile(path); err == nil {
		if before, err := shaders.Unpack(old); err == nil && bytes.Equal(before, spirv) {
			return nil
		}
	}
	file, err := shaders.Pack(spirv)
	if err != nil {
		return err
	}
	return os.WriteFile(path, file, 0o644)
}

// kept returns what the manifest has of a shader; nothing of one that was never compiled. It says which compiler is
// needed where that is not what its sources are now.
func (c *compiler) kept(name string, sources []shaders.Source, need shaders.Need) (s shaders.Shader) {
	if i := slices.IndexFunc(c.before.Shaders, func(s shaders.Shader) bool { return s.Name == name }); i >= 0 {
		s = c.before.Shaders[i]
	}
	if !slices.Equal(s.Sources, sources) {
		which := "Debian 12's glslang"
		if need.Glslang > 0 {
			which = fmt.Sprintf("glslang %d or newer", need.Glslang)
		}
		fmt.Fprintf(os.Stderr, "%s.comp is not compiled: it takes %s, which the variable GLSLANG may name, and this is %s\n", name, which, c.version)
	}
	return s
}
