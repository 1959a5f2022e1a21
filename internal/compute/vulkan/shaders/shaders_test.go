package shaders

import (
	"bytes"
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
	if !slices.Equal(m.Flags, Flags()) {
		t.Errorf("compiled with %v, and the flags are %v: make shaders", m.Flags, Flags())
	}
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
		code, err := binaries.ReadFile(s.Name + ".spv")
		if err != nil {
			t.Error(err)
		} else if Sum(code) != s.SPIRV {
			t.Errorf("%s.spv is not what was compiled: make shaders", s.Name)
		}
		if _, err := Code(s.Name); err != nil {
			t.Error(err)
		}
	}
	for _, ext := range []string{".comp", ".spv"} {
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

// TestRebuild: the same compiler makes the same bytes.
func TestRebuild(t *testing.T) {
	m := manifest(t)
	version, err := exec.Command("glslangValidator", "--version").Output()
	if err != nil {
		testenv.Missing(t, "vulkan", "glslangValidator is absent")
	}
	if have := strings.SplitN(string(version), "\n", 2)[0]; have != m.Compiler {
		testenv.Missing(t, "vulkan", "the shaders were compiled by "+m.Compiler+", and there is "+have)
	}
	dir := t.TempDir()
	for _, s := range m.Shaders {
		out := filepath.Join(dir, s.Name+".spv")
		if msg, err := exec.Command("glslangValidator", append(slices.Clone(m.Flags), "-o", out, s.Name+".comp")...).CombinedOutput(); err != nil {
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
