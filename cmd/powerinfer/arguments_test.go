package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"testing"
)

func TestFileNamedAsHelp(t *testing.T) {
	for _, name := range []string{"h", "help"} {
		root := command()
		root.Writer, root.ErrWriter = io.Discard, io.Discard
		err := root.Run(context.Background(), []string{"powerinfer", "quantize", name, t.TempDir() + "/out.gguf", "q4_0"})
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("quantize of a missing file named %s: error %v, want that there is no such file", name, err)
		}
	}
}
