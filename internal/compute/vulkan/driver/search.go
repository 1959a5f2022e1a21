package driver

import (
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/compute/vulkan/vk"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// search finds the loader and drivers of Linux in the system's folders, and in those where containers have NVIDIA's
// files and the loader does not look. Other systems' loaders need no help, and are not looked into.
type search struct {
	root      string                   // before every absolute path; empty but in tests
	getenv    func(name string) string // of the process
	load      func(name string) error  // loads a library, by its path or as the system finds it
	elsewhere []folders
	given     string // what help named to the loader
	cache     string // folder for a manifest of our own; empty: none
}

// folders belong together.
type folders struct{ manifests, libraries string }

func newSearch() *search {
	cache, err := os.UserCacheDir()
	if err == nil {
		cache = filepath.Join(cache, "powerinfer")
	}
	return &search{getenv: os.Getenv, load: vk.LoadLibrary, cache: cache, elsewhere: []folders{
		{"/usr/local/nvidia/share/vulkan/icd.d", "/usr/local/nvidia/lib64"}, // where container runtimes mount them
	}}
}

// The variables that name drivers' manifests. The loader takes the first that is set.
var driverVariables = [...]string{"VK_DRIVER_FILES", "VK_ICD_FILENAMES"}

// chosen are the manifests that the user named.
func (s *search) chosen() []string {
	for _, name := range driverVariables {
		if v := s.getenv(name); v != "" && v != s.given {
			return filepath.SplitList(v)
		}
	}
	return nil
}

// usual returns the manifests that the loader reads by default, in the order of its documentation.
func (s *search) usual() (found []string) {
	home := s.getenv("HOME")
	or := func(name, usual string) string {
		if v := s.getenv(name); v != "" {
			return v
		}
		return usual
	}
	bases := []string{or("XDG_CONFIG_HOME", home+"/.config")}
	bases = append(bases, filepath.SplitList(or("XDG_CONFIG_DIRS", "/etc/xdg"))...)
	bases = append(bases, "/etc", or("XDG_DATA_HOME", home+"/.local/share"))
	bases = append(bases, filepath.SplitList(or("XDG_DATA_DIRS", "/usr/local/share:/usr/share"))...)
	for _, base := range bases {
		found = append(found, s.files(filepath.Join(base, "vulkan/icd.d"), "*.json")...)
	}
	return found
}

// further returns manifests of drivers in other places, without those that the system's folders have, too.
func (s *search) further(usual []string) (found []string) {
	for _, f := range s.elsewhere {
		for _, m := range s.files(f.manifests, "*.json") {
			same := func(other string) bool { return filepath.Base(other) == filepath.Base(m) }
			if !slices.ContainsFunc(usual, same) && !slices.ContainsFunc(found, same) {
				found = append(found, m)
			}
		}
	}
	return found
}

// files returns the files of that pattern in a folder, without root.
func (s *search) files(folder, pattern string) []string {
	found, _ := filepath.Glob(filepath.Join(s.root, folder, pattern))
	for i := range found {
		found[i] = strings.TrimPrefix(found[i], s.root)
	}
	return found
}

// help sets what the loader needs to find drivers in other places, unless the user named some. It is called before the
// loader is opened, and does not affect other programs.
func (s *search) help(setenv func(name, value string) error) {
	if runtime.GOOS != "linux" || len(s.chosen()) > 0 || s.given != "" {
		return
	}
	usual := s.usual()
	all := append(s.further(usual), usual...)
	changed := len(all) > len(usual)
	for i, m := range all {
		if !s.ready(m) {
			if other := s.headless(m); other != "" {
				all[i], changed = other, true
			}
		}
	}
	if !changed {
		return
	}
	s.given = strings.Join(all, string(filepath.ListSeparator))
	for _, name := range driverVariables { // older loaders know only the second one
		_ = setenv(name, s.given)
	}
}

// opened are libraries that NVIDIA's driver opens by their names when it compiles shaders.
var opened = [...]string{"libnvidia-gpucomp.so.*", "libnvidia-glvkspirv.so.*"}

// ready loads the libraries that NVIDIA's driver, or one in another place, needs from its own folder, if the system
// does not search that. It reports whether the loader will find the driver; it cannot tell for others.
func (s *search) ready(manifest string) bool {
	lib, err := s.library(manifest)
	folder := s.beside(manifest)
	if err != nil || folder == "" && !strings.Contains(lib, glxDriver) || s.load(lib) == nil {
		return true
	}
	for _, pattern := range opened {
		for _, path := range s.files(folder, pattern) {
			_ = s.loadFrom(path, folder, nil)
		}
	}
	return s.loadFrom(lib, folder, nil) == nil
}

// NVIDIA's driver comes in two libraries. The one that its manifest names needs X11's libraries, which bare containers
// lack; the other has all that computing takes.
const glxDriver, eglDriver = "libGLX_nvidia", "libEGL_nvidia"

// headless returns a manifest of NVIDIA's driver without X11, in place of one with a library that cannot be loaded;
// empty: there is none. It is written to the user's cache folder.
func (s *search) headless(manifest string) string {
	lib, err := s.library(manifest)
	if err != nil || s.cache == "" || !strings.Contains(lib, glxDriver) {
		return ""
	}
	lib = strings.Replace(lib, glxDriver, eglDriver, 1)
	if s.loadFrom(lib, s.beside(manifest), nil) != nil {
		return ""
	}
	data, err := wholefile.Read(s.root+manifest, mostManifest)
	if err != nil {
		return ""
	}
	path := filepath.Join(s.cache, "nvidia_headless_icd.json")
	if err := replace(path, []byte(strings.ReplaceAll(string(data), glxDriver, eglDriver))); err != nil {
		return ""
	}
	return path
}

// beside returns the folder of libraries that belongs to a manifest in another place; empty: there is none.
func (s *search) beside(manifest string) string {
	for _, f := range s.elsewhere {
		if filepath.Dir(manifest) == f.manifests {
			return f.libraries
		}
	}
	return ""
}

// loadFrom loads a library from a folder, and before it those that it needs and the system does not find. A loaded
// library is found by its name from then on. tried are those already tried.
func (s *search) loadFrom(name, folder string, tried map[string]bool) error {
	err := s.load(name)
	if err == nil || folder == "" || tried[name] {
		return err
	}
	if tried == nil {
		tried = map[string]bool{}
	}
	tried[name] = true
	path := filepath.Join(folder, filepath.Base(name))
	f, failed := elf.Open(s.root + path)
	if failed != nil {
		return err
	}
	needed, _ := f.ImportedLibraries()
	f.Close()
	for _, n := range needed {
		_ = s.loadFrom(n, folder, tried)
	}
	return s.load(path)
}

// mostManifest bounds the bytes of a driver's manifest.
const mostManifest = 1 << 20

// library returns the library that a manifest names: a path, or what the system finds by its name.
func (s *search) library(manifest string) (string, error) {
	data, err := wholefile.Read(s.root+manifest, mostManifest)
	if err != nil {
		return "", err
	}
	var m struct {
		ICD struct {
			Library string `json:"library_path"`
		}
	}
	if err := json.Unmarshal(data, &m); err != nil || m.ICD.Library == "" {
		return "", fmt.Errorf("%s names no driver", manifest)
	}
	if strings.Contains(m.ICD.Library, "/") && !filepath.IsAbs(m.ICD.Library) {
		return filepath.Join(filepath.Dir(manifest), m.ICD.Library), nil
	}
	return m.ICD.Library, nil
}

// loaders returns where the loader may lie that the system does not find: with NVIDIA's files, and in the folder lib of
// the program's own, as gpu-check's bundle has it.
func (s *search) loaders() (paths []string) {
	if runtime.GOOS != "linux" {
		return nil
	}
	for _, f := range s.elsewhere {
		paths = append(paths, f.libraries+"/libvulkan.so.1")
	}
	if program, err := os.Executable(); err == nil {
		paths = append(paths, filepath.Join(filepath.Dir(program), "lib/libvulkan.so.1"))
	}
	return slices.Compact(paths)
}

// Installed lists the parts of Vulkan that were found on a Linux machine.
type Installed struct {
	Loaders []string   // files
	NoLoad  error      // why the loader cannot be opened
	Drivers []Manifest // that the loader is given
	Named   bool       // the user named them
	CUDA    []string   // files of NVIDIA's driver for CUDA
	devices bool       // NVIDIA's kernel driver shows some here
}

// Manifest tells the loader of a driver.
type Manifest struct {
	Path    string
	Library string
	Err     error // why the library cannot be loaded
}

// Found looks for what is installed. It loads drivers, as the loader does.
func Found() *Installed {
	process.Lock()
	defer process.Unlock()
	return process.find().installed()
}

func (s *search) installed() *Installed {
	i := &Installed{}
	if runtime.GOOS != "linux" || !vk.Supported {
		return i
	}
	i.Loaders, i.CUDA = s.libraries("libvulkan.so*"), s.libraries("libcuda.so*")
	i.devices = len(s.files("/dev", "nvidia[0-9]*")) > 0
	_, i.NoLoad = loader(s)
	manifests := s.chosen()
	switch i.Named = len(manifests) > 0; {
	case i.Named:
	case s.given != "":
		manifests = filepath.SplitList(s.given)
	default:
		manifests = s.usual()
		manifests = append(s.further(manifests), manifests...)
	}
	for _, path := range manifests {
		m := Manifest{Path: path}
		if m.Library, m.Err = s.library(path); m.Err == nil {
			m.Err = s.loadFrom(m.Library, s.beside(path), nil)
		}
		i.Drivers = append(i.Drivers, m)
	}
	return i
}

// libraries returns the files of a pattern where the system looks for libraries, and elsewhere, links resolved.
func (s *search) libraries(pattern string) (found []string) {
	folders := filepath.SplitList(s.getenv("LD_LIBRARY_PATH"))
	folders = append(folders, "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/lib/*-linux-gnu", "/usr/local/lib", "/usr/lib/wsl/lib")
	for _, f := range s.elsewhere {
		folders = append(folders, f.libraries)
	}
	for _, path := range s.loaders() {
		folders = append(folders, filepath.Dir(path))
	}
	for _, folder := range folders {
		for _, m := range s.files(folder, pattern) {
			at, err := filepath.EvalSymlinks(s.root + m)
			if at = strings.TrimPrefix(at, s.root); err == nil && !slices.Contains(found, at) {
				found = append(found, at)
			}
		}
	}
	return found
}

// packages are Debian's of libraries that drivers need and bare containers lack.
var packages = map[string]string{"libX11.so.6": "libx11-6", "libXext.so.6": "libxext6", "libxcb.so.1": "libxcb1", "libGLdispatch.so.0": "libglvnd0", "libEGL.so.1": "libegl1"}

// Advice says what is missing, and what to do about it: a sentence or two each.
func (i *Installed) Advice() (all []string) {
	say := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if i.NoLoad != nil {
		say("Vulkan's loader, libvulkan.so.1, cannot be opened: install the package that has it (Debian, Ubuntu: libvulkan1; Fedora: vulkan-loader).")
	}
	nvidia := false
	for _, m := range i.Drivers {
		nvidia = nvidia || strings.Contains(strings.ToLower(filepath.Base(m.Path)+m.Library), "nvidia")
		if m.Err == nil {
			continue
		}
		missing, _, _ := strings.Cut(m.Err.Error(), ":")
		if name, ok := packages[missing]; ok {
			say("The driver of %s needs %s: install the package that has it (Debian, Ubuntu: %s).", m.Path, missing, name)
		} else {
			say("The driver of %s cannot be loaded: %v.", m.Path, m.Err)
		}
	}
	switch {
	case i.Named && len(i.Drivers) > 0:
	case len(i.CUDA) > 0 && !nvidia:
		say("NVIDIA's driver is here without its part for Vulkan: %s is, and no nvidia_icd.json. Start a container with NVIDIA_DRIVER_CAPABILITIES=all; elsewhere install that part (Debian: nvidia-vulkan-icd; Ubuntu: libnvidia-gl of the driver's version).", i.CUDA[0])
	case len(i.Drivers) == 0:
		say("No Vulkan driver is installed: install the graphics card's (Debian, Ubuntu: mesa-vulkan-drivers for AMD and Intel; NVIDIA's own for NVIDIA).")
	}
	if nvidia && !i.devices {
		say("NVIDIA's driver finds no card, as there is no /dev/nvidia0: start a container with the card (Docker's option gpus=all), or load the kernel's driver (modprobe nvidia).")
	}
	return all
}
