package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// licenceFiles returns the files of a module's folder that hold its licence and notices.
func licenceFiles(path, folder string) ([]string, error) {
	var files []string
	for _, pattern := range []string{"LICEN[CS]E*", "COPYING*", "NOTICE*", "License*"} {
		matches, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return nil, err
		}
		for _, match := range matches {
			if info, err := os.Stat(match); err == nil && info.Mode().IsRegular() && !slices.Contains(files, match) {
				files = append(files, match)
			}
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no licence file", path)
	}
	return files, nil
}

// stated matches the name that a licence file gives its licence.
var stated = regexp.MustCompile(`SPDX-License-Identifier: ([\w.() -]*[\w.)])`)

// permissive are the licences that what we distribute may have.
var permissive = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

// permitted reports whether the program may contain code under licence, in the form of licenceOf or npm.
func permitted(licence string) bool {
	for one := range strings.SplitSeq(licence, ", ") {
		choices := strings.Split(strings.Trim(one, "()"), " OR ")
		if !slices.ContainsFunc(choices, func(choice string) bool { return slices.Contains(permissive, choice) }) {
			return false
		}
	}
	return true
}

// licenceOf returns the names, as SPDX has them, of the licences in a module's folder: "MIT, BSD-3-Clause".
func licenceOf(path, folder string) (string, error) {
	files, err := licenceFiles(path, folder)
	if err != nil {
		return "", err
	}
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		if name := stated.FindSubmatch(text); name != nil {
			names = append(names, string(name[1]))
			continue
		}
		for _, match := range licensecheck.Scan(text).Match {
			if !match.IsURL {
				names = append(names, match.ID)
			}
		}
	}
	if len(names) == 0 {
		return "", fmt.Errorf("the licence of %s is not one that is known", path)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", "), nil
}

// licenceTexts returns the licences of everything that the program is linked with or embeds, which archives and
// packages bring along.
func (f *found) licenceTexts() ([]byte, error) {
	var out bytes.Buffer
	section := func(title string) { fmt.Fprintf(&out, "\n======== %s\n\n", title) }
	out.WriteString("powerinfer is under the licence in LICENSE. It contains what follows, under these licences.\n")
	section("The embedded demo model")
	out.WriteString("Trained on books in the public domain of the USA, which demo/README.md lists. Their texts are not part of it.\n")
	for _, m := range f.groups[0].modules {
		fmt.Fprintf(&out, "\n======== %s %s\n", m.path, m.version)
		files, err := licenceFiles(m.path, m.folder)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			out.WriteByte('\n')
			out.Write(text)
		}
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	for _, last := range []struct{ title, file string }{
		{"Go's runtime and standard library", filepath.Join(strings.TrimSpace(string(root)), "LICENSE")},
		{"The web page", "internal/server/page/dist/licenses.txt"},
	} {
		section(last.title)
		text, err := os.ReadFile(filepath.FromSlash(last.file))
		if err != nil {
			return nil, err
		}
		out.Write(text)
	}
	return out.Bytes(), nil
}
