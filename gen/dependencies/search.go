package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A module is a Go module or an npm package.
type module struct {
	path, version, licence string
	folder                 string          // a Go module's files
	direct                 bool            // our own code imports it
	importers              map[string]bool // our packages, and modules
}

// A group is a section of the page.
type group struct {
	title, about string
	distributed  bool // the program contains these modules
	modules      []*module
}

type found struct{ groups []group }

func search() (*found, error) {
	program := modules{}
	for _, system := range []string{"linux", "windows", "darwin"} {
		for _, processor := range []string{"amd64", "arm64"} {
			if err := program.list(".", []string{"GOOS=" + system, "GOARCH=" + processor}, "./cmd/powerinfer"); err != nil {
				return nil, err
			}
		}
	}
	tests := modules{}
	for _, system := range []string{"linux", "windows", "darwin"} {
		if err := tests.list(".", []string{"GOOS=" + system, "GOARCH=amd64"}, "-test", "./..."); err != nil {
			return nil, err
		}
	}
	for path, m := range program {
		if m.direct || !tests[path].direct {
			delete(tests, path)
		}
	}
	f := &found{groups: []group{
		{title: "In the program", distributed: true, about: "What `powerinfer` is linked with on Linux, Windows and macOS.", modules: program.sorted()},
	}}
	embedded, err := locked("web", false)
	if err != nil {
		return nil, err
	}
	f.groups = append(f.groups,
		group{title: "In the page", distributed: true, about: "npm packages whose code is part of the page that `serve` embeds.", modules: embedded},
		group{title: "In tests", about: "What only the tests and the tools in `bench/` import.", modules: tests.sorted()})
	for _, nested := range []struct{ folder, about string }{
		{"gen", "A module of its own, which writes assembly and this page. What it writes is committed, so a build does not need it."},
		{"deploy", "A module of its own, whose tests hold the chart, the manifests and the units to what reads them."},
		{"internal/server/testdata/goclients", "A module of its own: clients for Go that ask the server as their users do. They pull in too much for the main module."},
	} {
		list := modules{}
		if err := list.list(nested.folder, []string{"GOOS=linux", "GOARCH=amd64"}, "-test", "./..."); err != nil {
			return nil, err
		}
		f.groups = append(f.groups, group{title: "In `" + nested.folder + "`", about: nested.about, modules: list.sorted()})
	}
	for _, folder := range []struct{ path, about string }{
		{"web", "npm packages that build the page and try it. The built page is committed, so a build does not need them."},
		{"internal/server/testdata/clients", "npm packages of clients, which tests install where npm can."},
		{"internal/server/testdata/agents", "npm packages of coding agents, for `make agents-check`."},
		{"internal/convert/testdata/tokenizers", "npm packages that tests install where npm can."},
		{"internal/hub/testdata/client", "npm packages that tests install where npm can."},
	} {
		list, err := locked(folder.path, true)
		if err != nil {
			return nil, err
		}
		f.groups = append(f.groups, group{title: "In `" + folder.path + "`, from npm", about: folder.about, modules: list})
	}
	tools, err := scripted()
	if err != nil {
		return nil, err
	}
	f.groups = append(f.groups, group{title: "Tools that scripts run", about: "Go modules that scripts run at a version of their own.", modules: tools})
	return f, nil
}

// modules are Go modules by path.
type modules map[string]*module

func (m modules) sorted() []*module {
	var list []*module
	for _, one := range m {
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b *module) int { return strings.Compare(a.path, b.path) })
	return list
}

// list adds the modules, other than the project's own, of the packages that go list names with args in folder.
func (m modules) list(folder string, environment []string, args ...string) error {
	args = append([]string{"list", "-deps", "-json=ImportPath,Imports,Module,Standard"}, args...)
	cmd := exec.Command("go", args...)
	cmd.Dir = filepath.FromSlash(folder)
	cmd.Env = append(append(os.Environ(), "GOFLAGS=", "GOWORK=off", "CGO_ENABLED=0"), environment...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go %s in %s: %w", strings.Join(args, " "), folder, err)
	}
	type listed struct {
		ImportPath string
		Imports    []string
		Standard   bool
		Module     *struct {
			Path, Version, Dir string
			Main               bool
		}
	}
	var packages []listed
	byPath := map[string]*module{} // modules outside the project, by the paths of their packages
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		packages = append(packages, p)
		if p.Module == nil || ours(p.Module.Path, p.Module.Main) {
			continue
		}
		one := m[p.Module.Path]
		if one == nil {
			licence, err := licenceOf(p.Module.Path, p.Module.Dir)
			if err != nil {
				return err
			}
			one = &module{path: p.Module.Path, version: p.Module.Version, folder: p.Module.Dir, licence: licence, importers: map[string]bool{}}
			m[p.Module.Path] = one
		}
		byPath[plain(p.ImportPath)] = one
	}
	for _, p := range packages {
		if p.Module == nil {
			continue
		}
		for _, name := range p.Imports {
			imported := byPath[plain(name)]
			if imported == nil || imported.path == p.Module.Path {
				continue
			}
			importer := p.Module.Path
			if ours(importer, p.Module.Main) {
				imported.direct = imported.direct || p.Module.Main
				importer = cmp.Or(ownName(p.ImportPath), ".")
			}
			imported.importers[importer] = true
		}
	}
	return nil
}

func ours(path string, main bool) bool {
	return main || path == project || strings.HasPrefix(path, project+"/")
}

// plain returns a package's path without the test that go list compiled it for: "a/b [a/b.test]".
func plain(path string) string {
	path, _, _ = strings.Cut(path, " ")
	return path
}

// ownName returns the folder of a package of ours, in the project.
func ownName(path string) string {
	path = strings.TrimSuffix(strings.TrimSuffix(plain(path), ".test"), "_test")
	return strings.TrimPrefix(strings.TrimPrefix(path, project), "/")
}

// locked returns the npm packages of a folder: those for development only, or those that become part of its product,
// without optional ones, which are types.
func locked(folder string, development bool) ([]*module, error) {
	type entry struct {
		Version, License              string
		Dev, Optional                 bool
		Dependencies, DevDependencies map[string]string
	}
	var lock struct{ Packages map[string]entry }
	data, err := os.ReadFile(filepath.Join(filepath.FromSlash(folder), "package-lock.json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &lock); err != nil {
		return nil, fmt.Errorf("%s/package-lock.json: %w", folder, err)
	}
	list := modules{}
	for name, e := range lock.Packages {
		// In a folder of tests everything is a dependency; the page distinguishes the two.
		if name == "" || folder == "web" && (e.Dev != development || !development && e.Optional) {
			continue
		}
		name = npmName(name)
		root := lock.Packages[""]
		_, direct := root.Dependencies[name]
		_, tool := root.DevDependencies[name]
		list[name] = &module{path: name, version: e.Version, licence: cmp.Or(e.License, "not stated"), direct: direct || tool, importers: map[string]bool{}}
	}
	for name, e := range lock.Packages {
		name = npmName(name)
		for needed := range e.Dependencies {
			if one := list[needed]; one != nil && list[name] != nil {
				one.importers[name] = true
			}
		}
	}
	for _, one := range list {
		if one.direct {
			one.importers[folder] = true
		}
	}
	return list.sorted(), nil
}

// npmName returns a package's name by its folder: node_modules/a/node_modules/@b/c.
func npmName(folder string) string {
	const parent = "node_modules/"
	if at := strings.LastIndex(folder, parent); at >= 0 {
		return folder[at+len(parent):]
	}
	return folder
}

// atVersion is a tool that a script runs: go run honnef.co/go/tools/cmd/staticcheck@v0.8.2.
var atVersion = regexp.MustCompile(`([a-z0-9.-]+\.[a-z]+/[\w./-]+)@(v\d[\w.-]*)`)

func scripted() ([]*module, error) {
	scripts, err := filepath.Glob("scripts/*.sh")
	if err != nil {
		return nil, err
	}
	list := modules{}
	for _, script := range scripts {
		data, err := os.ReadFile(script)
		if err != nil {
			return nil, err
		}
		for _, match := range atVersion.FindAllStringSubmatch(string(data), -1) {
			// A tool's package may be several folders deep in its module.
			name := match[1]
			for name != "." && reasonFor(name) == nil {
				name = path.Dir(name)
			}
			if name == "." {
				return nil, fmt.Errorf("%s runs %s, which has no reason: say in gen/dependencies/reasons.go what it is for", script, match[0])
			}
			one := list[name]
			if one == nil {
				folder, err := downloaded(name, match[2])
				if err != nil {
					return nil, err
				}
				licence, err := licenceOf(name, folder)
				if err != nil {
					return nil, err
				}
				one = &module{path: name, version: match[2], licence: licence, direct: true, importers: map[string]bool{}}
				list[name] = one
			}
			if one.version != match[2] {
				return nil, fmt.Errorf("scripts run %s at two versions, %s and %s", name, one.version, match[2])
			}
			one.importers[filepath.ToSlash(script)] = true
		}
	}
	return list.sorted(), nil
}

// downloaded returns the folder of a module in the module cache.
func downloaded(path, version string) (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", path+"@"+version)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s@%s: %w", path, version, err)
	}
	var answer struct{ Dir string }
	return answer.Dir, json.Unmarshal(out, &answer)
}
