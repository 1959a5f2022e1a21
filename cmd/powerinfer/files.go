package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
)

// access says what a command does with a file that its flags or arguments name.
type access int

const (
	reads access = iota
	writes
	writesFolder // a report's files in this folder
	ownFolder    // a folder of the program's own files
)

// fileFlags names every flag of every command that names a file or a folder; a test holds it to the commands' help.
func fileFlags() map[string]access {
	return map[string]access{
		"model": reads, "file": reads, "eval-file": reads, "stats": reads, "machine": reads, "grammar-file": reads, "json-schema-file": reads,
		"image": reads, "mmproj": reads, "system-prompt-file": reads, "chat-template-file": reads, "api-key-file": reads, "models-dir": reads,
		"imatrix": reads, "in-file": reads, "beside": reads, "lora": reads, "samples": reads, "shots-file": reads, "model-draft": reads, "base": reads, "target-model-dir": reads, "tensor-type-file": reads,
		"ssl-key-file": reads, "ssl-cert-file": reads,
		"output": writes, "outfile": writes, "trace": writes, "html": writes, "log-file": writes, "store": writes,
		"kl-divergence-base": writes, // only with --kl-divergence
		"prompt-cache":       writes, // and reads its own files
		"report":             writesFolder,
		"work":               ownFolder,
	}
}

// argumentAccess returns how a command accesses the files among its arguments, in their order. An argument that names
// the model is not among them any more: it has become the value of -m.
func argumentAccess(command string) []access {
	switch command {
	case "quantize":
		return []access{reads, writes}
	case "convert":
		return []access{reads, reads}
	case "show":
		return []access{reads}
	}
	return nil
}

// guarded returns action with a check before it: no output file may be an input.
func guarded(action cli.ActionFunc) cli.ActionFunc {
	return func(ctx context.Context, c *cli.Command) error {
		in, out := commandFiles(c)
		if err := checkFiles(in, out); err != nil {
			return err
		}
		return action(ctx, c)
	}
}

// commandFiles returns the input and output files among c's flags and arguments.
func commandFiles(c *cli.Command) (in, out []string) {
	add := func(name string, a access) {
		switch {
		case name == "" || name == "-" || a == ownFolder:
		case a == reads:
			in = append(in, name)
		case a == writesFolder:
			for _, file := range reportFiles() {
				out = append(out, filepath.Join(name, file))
			}
		default:
			out = append(out, name)
		}
	}
	known := fileFlags()
	for _, f := range c.Flags {
		name := f.Names()[0]
		a, ok := known[name]
		if !ok {
			continue
		}
		if name == "kl-divergence-base" && c.Bool("kl-divergence") {
			a = reads
		}
		if _, list := f.(*cli.StringSliceFlag); list {
			for _, file := range c.StringSlice(name) {
				add(file, a)
			}
			continue
		}
		add(c.String(name), a)
	}
	for i, a := range argumentAccess(c.Name) {
		add(c.Args().Get(i), a)
	}
	return in, out
}

// checkFiles refuses outputs that are inputs, by whatever name or link, and two outputs that are one file. An input
// folder includes the files in it, and the first part of a split model includes all parts.
func checkFiles(in, out []string) error {
	if len(out) == 0 {
		return nil
	}
	var read []string
	for _, name := range in {
		read = append(read, gguf.Parts(name)...)
		entries, err := os.ReadDir(name)
		if err != nil {
			continue // a file, or nothing
		}
		for _, e := range entries {
			read = append(read, filepath.Join(name, e.Name()))
		}
	}
	for i, o := range out {
		for _, name := range read {
			if sameFile(name, o) {
				return fmt.Errorf("%s is both read and written; name another file to write", o)
			}
		}
		for _, other := range out[:i] {
			if sameFile(other, o) || sameName(other, o) && !device(o) {
				return fmt.Errorf("%s would be written twice; name two files", o)
			}
		}
	}
	return nil
}

// sameFile reports whether two names lead to one file or folder. Devices do not count: a terminal can be both input and
// output.
func sameFile(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y) && (x.Mode().IsRegular() || x.IsDir())
}

// device reports whether a name leads to something that is neither a file nor a folder.
func device(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.Mode().IsRegular() && !info.IsDir()
}

// sameName reports whether two names mean one file that need not exist.
func sameName(a, b string) bool {
	x, err1 := filepath.Abs(a)
	y, err2 := filepath.Abs(b)
	return errors.Join(err1, err2) == nil && x == y
}
