package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer/demo"
	"github.com/powerinfer-go/powerinfer/internal/convert"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/quant"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

func TestWithCommand(t *testing.T) {
	for _, c := range []struct{ args, want []string }{
		{[]string{"p"}, []string{"p"}},
		{[]string{"p", "-m", "x"}, []string{"p", "run", "-m", "x"}},
		{[]string{"p", "--prompt=a"}, []string{"p", "run", "--prompt=a"}},
		{[]string{"p", "bench", "-p", "1"}, []string{"p", "bench", "-p", "1"}},
		{[]string{"p", "-h"}, []string{"p", "-h"}},
		{[]string{"p", "--help", "run"}, []string{"p", "--help", "run"}},
		{[]string{"p", "--version"}, []string{"p", "version"}},
	} {
		if got := withCommand(c.args); !slices.Equal(got, c.want) {
			t.Errorf("withCommand(%q) = %q, want %q", c.args, got, c.want)
		}
	}
}

func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"a\nb\x1b[31mc": "a b [31mc",
		`invalid value "1e3" for flag -n: strconv.ParseInt: parsing "1e3": invalid syntax`: `invalid value "1e3" for flag -n: invalid syntax`,
		`strconv.ParseFloat: parsing "a\"b": invalid syntax`:                               "invalid syntax",
		strings.Repeat("ä", 2000):                                                          strings.Repeat("ä", longestError) + "…",
	} {
		if got := oneLine(errors.New(in)); got != want {
			t.Errorf("oneLine(%q) = %q, want %q", in, got, want)
		}
	}
}

// A cancelled conversion ends its goroutine at the next progress, and its deferred calls leave no file behind.
func TestUntilCancelled(t *testing.T) {
	f, err := gguf.Parse(demo.Name, demo.Model())
	if err != nil {
		t.Fatal(err)
	}
	type work func(path string, progress func(done, total int64)) error
	for name, begin := range map[string]func(*testing.T) work{
		"convert": func(t *testing.T) work {
			hf := testenv.Shared(t, "demo-model/hf")
			return func(path string, progress func(done, total int64)) error {
				return convert.HuggingFace(hf, path, convert.Options{OutType: quant.F16, Progress: progress})
			}
		},
		"quantize": func(*testing.T) work {
			return func(path string, progress func(done, total int64)) error {
				return convert.Quantize(f, path, convert.Quantization{Type: quant.Q8_0, Progress: progress})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			write := begin(t)
			dir := t.TempDir()
			ctx, cancel := context.WithCancel(context.Background())
			returned := false
			ended := make(chan bool)
			go func() {
				defer close(ended)
				_ = write(filepath.Join(dir, "m.gguf"), untilCancelled(ctx, func(int64, int64) { cancel() }))
				returned = true
			}()
			<-ended
			if returned {
				t.Error("it ran to its end")
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}
