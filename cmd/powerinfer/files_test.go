package main

import (
	"regexp"
	"testing"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/modelname"
)

// TestFileArguments: argumentAccess knows every argument of a command that names a file or a folder.
func TestFileArguments(t *testing.T) {
	names := regexp.MustCompile(`\b(FILE|FOLDER|MODEL|IN|OUT|PREDICTORS)\b`)
	seen := 0
	for _, c := range command().Commands {
		words := len(names.FindAllString(c.ArgsUsage, -1))
		if modelname.Names(c.Name) { // the model, which becomes the value of -m
			words--
		}
		seen += words
		if known := len(argumentAccess(c.Name)); known != words {
			t.Errorf("%s %s: argumentAccess knows %d files, not %d", c.Name, c.ArgsUsage, known, words)
		}
	}
	if seen < 5 {
		t.Errorf("only %d arguments name files", seen)
	}
}

// TestFileFlags: fileFlags knows every flag of a command that names a file or a folder, so that no command overwrites
// its input.
func TestFileFlags(t *testing.T) {
	names := regexp.MustCompile("`(FILE|FOLDER)`")
	known, seen := fileFlags(), 0
	for _, c := range command().Commands {
		for _, f := range c.Flags {
			d, ok := f.(cli.DocGenerationFlag)
			if !ok || !names.MatchString(d.GetUsage()) {
				continue
			}
			seen++
			if _, ok := known[f.Names()[0]]; !ok {
				t.Errorf("%s --%s names a file, and fileFlags does not say whether it is read or written", c.Name, f.Names()[0])
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d flags name files", seen)
	}
}
