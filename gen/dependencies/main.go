// Command dependencies writes docs/dependencies.md and LICENSES.txt from what go list, the lock files of npm and the
// scripts say. Why a module was chosen is said by hand, in reasons.go. It fails for a module that our code imports
// without a reason, for a reason without its module, and for a licence that the program may not be linked with.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

const (
	project = "github.com/powerinfer-go/powerinfer"
	page    = "docs/dependencies.md"
	texts   = "LICENSES.txt"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "dependencies:", err)
		os.Exit(1)
	}
}

func run() error {
	if err := os.Chdir(".."); err != nil { // go -C gen run ./dependencies
		return err
	}
	if _, err := os.Stat(page); err != nil {
		return fmt.Errorf("run this from gen: %w", err)
	}
	found, err := search()
	if err != nil {
		return err
	}
	if err := found.check(); err != nil {
		return err
	}
	licences, err := found.licenceTexts()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.FromSlash(texts), licences, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.FromSlash(page), found.markdown(), 0o644)
}

// check reports modules without a reason, reasons without a module, and licences that do not fit the program's.
func (f *found) check() error {
	used := map[string]bool{}
	for _, group := range f.groups {
		for _, m := range group.modules {
			if r := reasonFor(m.path); m.direct && r != nil {
				used[r.path] = true
			} else if m.direct {
				return fmt.Errorf("%s (%s) has no reason: say in gen/dependencies/reasons.go what it is for and why it was chosen", m.path, group.title)
			}
			if group.distributed && !permitted(m.licence) {
				return fmt.Errorf("%s is under %s, which is not among the licences that the program may contain", m.path, m.licence)
			}
		}
	}
	for _, r := range reasons {
		if !used[r.path] {
			return fmt.Errorf("nothing imports %s any longer: take its reason out of gen/dependencies/reasons.go", r.path)
		}
	}
	return nil
}
