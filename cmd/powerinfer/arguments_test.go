package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"testing"
	"time"
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

func TestTimeSpan(t *testing.T) {
	for want, span := range map[string][2]time.Duration{
		"about 1s":  {700 * time.Millisecond, time.Second},
		"2s to 40s": {2 * time.Second, 40 * time.Second},
	} {
		if got := timeSpan(span[0], span[1]); got != want {
			t.Errorf("from %v to %v: %q, want %q", span[0], span[1], got, want)
		}
	}
}
