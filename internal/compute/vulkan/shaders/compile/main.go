// Command compile writes the shaders' table of types, compiles every .comp of the working directory to SPIR-V and
// writes the manifest. It needs glslangValidator, of Debian's glslang-tools.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/shaders"
)

func main() {
	if err := compile(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func compile() error {
	version, err := exec.Command("glslangValidator", "--version").Output()
	if err != nil {
		return fmt.Errorf("glslangValidator (of glslang-tools): %w", err)
	}
	m := shaders.Manifest{Compiler: strings.SplitN(string(version), "\n", 2)[0], Flags: shaders.Flags()}
	if err := os.WriteFile(shaders.TypesFile, shaders.Types(), 0o644); err != nil {
		return err
	}
	files, err := filepath.Glob("*.comp") // in order
	if err != nil {
		return err
	}
	var failed []error
	for _, file := range files {
		s, err := one(strings.TrimSuffix(file, ".comp"))
		failed = append(failed, err)
		m.Shaders = append(m.Shaders, s)
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

// one compiles a shader in place, if it compiles.
func one(name string) (shaders.Shader, error) {
	s := shaders.Shader{Name: name}
	var err error
	if s.Sources, err = shaders.Sources(os.DirFS("."), name); err != nil {
		return s, err
	}
	temporary := name + ".spv.tmp"
	defer os.Remove(temporary)
	cmd := exec.Command("glslangValidator", append(shaders.Flags(), "-o", temporary, name+".comp")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return s, fmt.Errorf("%s", out)
	}
	data, err := os.ReadFile(temporary)
	if err == nil {
		data, err = shaders.Khronos(data)
	}
	if err == nil {
		err = os.WriteFile(temporary, data, 0o644)
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	s.SPIRV = shaders.Sum(data)
	return s, os.Rename(temporary, name+".spv")
}
