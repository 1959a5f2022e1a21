package shaders

import (
	"bytes"
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

func manifest(t *testing.T) (m Manifest) {
	t.Helper()
	data, err := os.ReadFile("manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestManifest: what is embedded was compiled from the sources as they are, with the flags as they are.
func TestManifest(t *testing.T) {
	m := manifest(t)
	var names []string
	for _, s := range m.Shaders {
		names = append(names, s.Name)
		sources, err := Sources(os.DirFS("."), s.Name)
		if err != nil {
			t.Error(err)
			continue
		}
		if !slices.Equal(s.Sources, sources) {
			t.Errorf("%s: its sources are %v, and it was compiled from %v: make shaders", s.Name, sources, s.Sources)
		}
		if need, err := Needs(os.DirFS("."), s.Name); err != nil || !slices.Equal(m.flags(s), need.Flags()) {
			t.Errorf("%s: compiled with %v, and the flags are %v (%v): make shaders", s.Name, m.flags(s), need.Flags(), err)
		}
		code, err := bytecode(s.Name)
		if err != nil {
			t.Error(err)
		} else if Sum(code) != s.SPIRV {
			t.Errorf("%s%s is not what was compiled: make shaders", s.Name, Extension)
		}
		if _, err := Code(s.Name); err != nil {
			t.Error(err)
		}
	}
	for _, ext := range []string{".comp", Extension} {
		var have []string
		files, _ := filepath.Glob("*" + ext)
		for _, f := range files {
			have = append(have, strings.TrimSuffix(f, ext))
		}
		if !slices.Equal(have, names) {
			t.Errorf("the manifest has %v, and there are %v as %s: make shaders", names, have, ext)
		}
	}
}

// TestTypes: the shaders' types are those of quant's table.
func TestTypes(t *testing.T) {
	have, err := os.ReadFile(TypesFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, Types()) {
		t.Errorf("%s is not what package quant says: make shaders", TypesFile)
	}
}

// flags returns what s was compiled with.
func (m Manifest) flags(s Shader) []string {
	if s.Flags != nil {
		return s.Flags
	}
	return m.Flags
}

// TestRebuild: the same compiler makes the same bytes. Shaders of another compiler, which need a newer one than most, are
// left out.
func TestRebuild(t *testing.T) {
	testenv.Thorough(t)
	m := manifest(t)
	printed, err := exec.Command(Compiler(), "--version").Output()
	if err != nil {
		testenv.Missing(t, "vulkan", Compiler()+" is absent")
	}
	version, _, err := Version(printed)
	if err != nil {
		t.Fatal(err)
	}
	m.Shaders = slices.DeleteFunc(m.Shaders, func(s Shader) bool { return cmp.Or(s.Compiler, m.Compiler) != version })
	if len(m.Shaders) == 0 {
		testenv.Missing(t, "vulkan", "no shader was compiled by "+version+", which is installed")
	}
	dir := t.TempDir()
	for _, s := range m.Shaders {
		out := filepath.Join(dir, s.Name+".spv")
		if msg, err := exec.Command(Compiler(), append(slices.Clone(m.flags(s)), "-o", out, s.Name+".comp")...).CombinedOutput(); err != nil {
			t.Errorf("%s", msg)
			continue
		}
		data, err := os.ReadFile(out)
		if err == nil {
			data, err = Khronos(data)
		}
		if err != nil {
			t.Fatal(err)
		}
		if Sum(data) != s.SPIRV {
			t.Errorf("%s.comp compiles to other bytes than are committed", s.Name)
		}
	}
}

// TestVersion: what compilers print has their version, of which the major number counts.
func TestVersion(t *testing.T) {
	version, major, err := Version([]byte("Glslang Version: 11:16.6.0\nESSL Version: OpenGL ES GLSL 3.20 glslang Khronos. 16.6.0\n"))
	if version != "Glslang Version: 11:16.6.0" || major != 16 || err != nil {
		t.Errorf("%q, %d, %v", version, major, err)
	}
	if _, _, err := Version([]byte("shaderc v2025")); err == nil {
		t.Error("another compiler passes")
	}
}
