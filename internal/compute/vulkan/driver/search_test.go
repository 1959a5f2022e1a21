package driver

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// files writes a machine's files below a new folder, and returns that.
func files(t *testing.T, all map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range all {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func manifest(library string) string {
	return `{"file_format_version": "1.0.1", "ICD": {"library_path": "` + library + `", "api_version": "1.3"}}`
}

const (
	nvidiaElsewhere = "/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json"
	nvidiaUsual     = "/usr/share/vulkan/icd.d/nvidia_icd.json"
	mesaUsual       = "/etc/vulkan/icd.d/radeon_icd.json"
	cudaElsewhere   = "/usr/local/nvidia/lib64/libcuda.so.580"
)

// TestInstalled: what machines have, what the loader is told, and what people are advised.
func TestInstalled(t *testing.T) {
	if runtime.GOOS != "linux" || !vk.Supported {
		t.Skip("for Linux, with GPU support")
	}
	for name, c := range map[string]struct {
		files   map[string]string
		env     map[string]string
		missing string   // what libraries lack; empty: nothing
		egl     bool     // but for NVIDIA's second one
		named   string   // to the loader
		advice  []string // parts of each sentence
	}{
		"bare":   {advice: []string{"No Vulkan driver is installed"}},
		"Mesa":   {files: map[string]string{mesaUsual: manifest("libvulkan_radeon.so")}},
		"NVIDIA": {files: map[string]string{nvidiaUsual: manifest("libGLX_nvidia.so.0"), "/dev/nvidia0": ""}},
		"a container": {
			files: map[string]string{nvidiaElsewhere: manifest("libGLX_nvidia.so.0"), mesaUsual: manifest("x.so"), cudaElsewhere: "", "/dev/nvidia0": ""},
			named: nvidiaElsewhere + ":" + mesaUsual,
		},
		"both places": {files: map[string]string{nvidiaElsewhere: manifest("a.so"), nvidiaUsual: manifest("b.so"), "/dev/nvidia0": ""}},
		"the user's": {
			files: map[string]string{nvidiaElsewhere: manifest("a.so"), "/mine.json": manifest("b.so")},
			env:   map[string]string{"VK_ICD_FILENAMES": "/mine.json"},
		},
		"without graphics": {files: map[string]string{cudaElsewhere: "", "/dev/nvidia0": ""}, advice: []string{"NVIDIA_DRIVER_CAPABILITIES=all"}},
		"without X11": {
			files:   map[string]string{nvidiaUsual: manifest("libGLX_nvidia.so.0"), "/dev/nvidia0": ""},
			missing: "libX11.so.6", advice: []string{"needs libX11.so.6: install the package that has it (Debian, Ubuntu: libx11-6)"},
		},
		"headless": {
			files:   map[string]string{nvidiaUsual: manifest("libGLX_nvidia.so.0"), mesaUsual: manifest("x.so"), "/dev/nvidia0": ""},
			missing: "libX11.so.6", egl: true, named: mesaUsual + ":/cache/nvidia_headless_icd.json",
			advice: []string{"radeon_icd.json needs"}, // of which the test says the same
		},
		"without a card": {files: map[string]string{nvidiaUsual: manifest("libGLX_nvidia.so.0")}, advice: []string{"gpus=all"}},
		"damaged":        {files: map[string]string{mesaUsual: "{"}, advice: []string{"names no driver"}},
		"another library": {
			files: map[string]string{mesaUsual: manifest("../lib/x.so")}, missing: "libLLVM.so.15",
			advice: []string{"cannot be loaded: libLLVM.so.15: cannot open"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSearch()
			s.root = files(t, c.files)
			s.getenv = func(name string) string { return c.env[name] }
			s.cache = ""
			if c.egl {
				s.cache = s.root + "/cache"
			}
			s.load = func(name string) error {
				if c.missing != "" && !(c.egl && name == "libEGL_nvidia.so.0") {
					return errors.New(c.missing + ": cannot open shared object file: No such file or directory")
				}
				return nil
			}
			set := map[string]string{}
			s.help(func(name, value string) error { set[name] = value; return nil })
			for name := range set {
				set[name] = strings.ReplaceAll(set[name], s.root, "")
			}
			s.given = strings.ReplaceAll(s.given, s.root, "")
			if set["VK_DRIVER_FILES"] != c.named || set["VK_ICD_FILENAMES"] != c.named {
				t.Errorf("the loader is told %q, want %q", set, c.named)
			}
			s.getenv = func(name string) string { return set[name] + c.env[name] }
			i := s.installed()
			i.NoLoad = nil // of this machine
			advice := i.Advice()
			if len(advice) != len(c.advice) {
				t.Fatalf("advice %q, want %q", advice, c.advice)
			}
			for k, a := range advice {
				if !strings.Contains(a, c.advice[k]) || strings.Contains(a, "\n") {
					t.Errorf("advice %q, want %q", a, c.advice[k])
				}
			}
		})
	}
	if a := (&Installed{NoLoad: errors.New("no"), Drivers: []Manifest{{Path: mesaUsual}}}).Advice(); len(a) != 1 || !strings.Contains(a[0], "libvulkan1") {
		t.Errorf("without a loader: %q", a)
	}
}

// TestNeeded: what a driver needs is loaded before it from its own folder, where the system does not find it.
func TestNeeded(t *testing.T) {
	const needs = "libnvidia-needed.so.1"
	s := newSearch()
	s.elsewhere = []folders{{"/there", "/libs"}}
	s.root = files(t, map[string]string{"/there/a.json": manifest("libdriver.so.0"), "/libs/libdriver.so.0": library(needs), "/libs/" + needs: library("libc.so.6")})
	var loaded []string
	s.load = func(name string) error {
		has := func(n string) bool { return slices.Contains(loaded, n) }
		if name == "libc.so.6" || has(name) || name == "/libs/"+needs || name == "/libs/libdriver.so.0" && has("/libs/"+needs) {
			loaded = append(loaded, name)
			return nil
		}
		return errors.New(name + ": cannot open shared object file")
	}
	if err := s.loadFrom("libdriver.so.0", s.beside("/there/a.json"), nil); err != nil {
		t.Errorf("%v; loaded %q", err, loaded)
	}
	if err := s.loadFrom("libother.so.0", "/libs", nil); err == nil {
		t.Error("a library that is not there was loaded")
	}
}

// library returns an ELF file of 64 bits, little-endian, that needs another and has nothing else.
func library(needs string) string {
	names := "\x00" + needs + "\x00"
	var b bytes.Buffer
	put := func(all ...any) {
		for _, v := range all {
			_ = binary.Write(&b, binary.LittleEndian, v)
		}
	}
	const header, section = 64, 64
	dynamic := uint64(header + 3*section)
	strings := dynamic + 2*16
	put(elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}, Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1,
		Shoff: header, Ehsize: header, Shentsize: section, Shnum: 3, Shstrndx: 2,
	})
	put(elf.Section64{}, elf.Section64{Type: uint32(elf.SHT_DYNAMIC), Off: dynamic, Size: 32, Link: 2, Entsize: 16}, elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: strings, Size: uint64(len(names))})
	put(elf.Dyn64{Tag: int64(elf.DT_NEEDED), Val: 1}, elf.Dyn64{})
	b.WriteString(names)
	return b.String()
}

// TestElsewhere: a driver whose manifest lies where the loader does not look is found, in a process where nothing else
// is. Its environment is the loader's, which reads it as C does.
func TestElsewhere(t *testing.T) {
	const marked = "POWERINFER_TEST_ELSEWHERE"
	if folder := os.Getenv(marked); folder != "" {
		process.search = newSearch()
		process.search.elsewhere = []folders{{folder, "/nowhere"}}
		all, err := Devices()
		if err != nil || !slices.ContainsFunc(all, func(i Info) bool { return i.Kind == CPU }) {
			t.Fatalf("devices %+v, error %v", all, err)
		}
		if i := Found(); i.Named || len(i.Drivers) != 1 || i.Drivers[0].Err != nil || len(i.Advice()) > 0 {
			t.Errorf("found %+v, advice %q", i, i.Advice())
		}
		return
	}
	own, _ := filepath.Glob("/usr/share/vulkan/icd.d/lvp_icd*.json")
	if runtime.GOOS != "linux" || !vk.Supported || len(own) == 0 {
		testenv.Missing(t, "vulkan", "no lavapipe's manifest")
	}
	text, err := os.ReadFile(own[0])
	if err != nil {
		t.Fatal(err)
	}
	root := files(t, map[string]string{"elsewhere/lvp_icd.json": string(text)})
	cmd := exec.Command(os.Args[0], "-test.run=^TestElsewhere$")
	cmd.Env = []string{marked + "=" + filepath.Join(root, "elsewhere"), "HOME=" + root, "XDG_CONFIG_DIRS=" + root, "XDG_DATA_DIRS=" + root, "PATH=" + os.Getenv("PATH")}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
