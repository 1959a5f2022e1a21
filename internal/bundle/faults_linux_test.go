//go:build amd64 || arm64

package bundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/testenv"
	"github.com/powerinfer-go/powerinfer/internal/testenv/faults"
)

var large = flag.Bool("large", false, "TestKilled and TestFaults use a model of 50 MB")

// childEnv names what a child process does: it becomes supervised, and then makes the bundle file of the model that its
// argument names.
const childEnv = "POWERINFER_BUNDLE_TEST"

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "supervised":
		os.Setenv(childEnv, "make")
		fmt.Fprintln(os.Stderr, faults.Become("/proc/self/exe", os.Args, os.Environ()))
		os.Exit(3)
	case "make":
		model, err := gguf.Open(os.Args[1])
		if err == nil {
			_, err = For(context.Background(), model, Making{piece: childPiece})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// childPiece is small, so that there are many moments.
const childPiece = 64 << 10

// child makes the bundle file of a model in another process, in which a call fails.
func child(t *testing.T, model, cache string, f faults.Fault) (calls []faults.Call, stderr string, err error) {
	t.Helper()
	cmd := exec.Command(os.Args[0], model)
	cmd.Env = append(os.Environ(), childEnv+"=supervised", "XDG_CACHE_HOME="+cache)
	var text bytes.Buffer
	cmd.Stderr = &text
	calls, at, err := faults.Run(cmd, filepath.Dir(model), f)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		testenv.Missing(t, "seccomp", err.Error())
	}
	if f.Kind != "" && at < 0 {
		t.Fatalf("%+v did not happen: %v %s", f, calls, text.String())
	}
	return calls, text.String(), err
}

func sum(t *testing.T, path string) [sha256.Size]byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// subject is a model and what its bundle file is like.
type subject struct {
	path, cache string
	want        [sha256.Size]byte
	calls       []faults.Call // of a process that makes the file
}

func newSubject(t *testing.T) *subject {
	t.Helper()
	ff := 128
	if *large {
		ff = 2048
	}
	s := &subject{path: random(t, t.TempDir(), 1, 6, 2048, ff), cache: t.TempDir()}
	var err error
	var said string
	if s.calls, said, err = child(t, s.path, s.cache, faults.Fault{}); err != nil {
		t.Fatal(err, said)
	}
	s.want = sum(t, s.path+Suffix)
	return s
}

// fault returns a fault of call number i.
func (s *subject) fault(i int) faults.Fault {
	f := faults.Fault{Kind: s.calls[i].Kind()}
	for _, c := range s.calls[:i] {
		if c.Kind() == f.Kind {
			f.Nth++
		}
	}
	return f
}

// TestKilled: if a process is killed at any moment while it writes the file, the file is either missing or complete.
// The next start completes it.
func TestKilled(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	t.Logf("%d calls", len(s.calls))
	rng := rand.New(rand.NewPCG(1, 1))
	const moments = 50
	for range moments {
		os.Remove(s.path + Suffix)
		f := s.fault(rng.IntN(len(s.calls)))
		f.Kill, f.Short = true, rng.IntN(2) == 0
		if _, said, err := child(t, s.path, s.cache, f); err == nil {
			t.Fatalf("%+v: it was not killed: %s", f, said)
		}
		if _, err := os.Stat(s.path + Suffix); err == nil && sum(t, s.path+Suffix) != s.want {
			t.Fatalf("%+v: a file has the name that is not whole", f)
		}
		if _, said, err := child(t, s.path, s.cache, faults.Fault{}); err != nil {
			t.Fatalf("%+v: the next start: %v %s", f, err, said)
		}
		if sum(t, s.path+Suffix) != s.want {
			t.Fatalf("%+v: the next start made another file", f)
		}
		only(t, filepath.Dir(s.path), "m.gguf", "m.gguf"+Suffix)
	}
}

// TestResumed: layers finished before a process was killed are not written again.
func TestResumed(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	os.Remove(s.path + Suffix)
	f := s.fault(len(s.calls) / 2)
	f.Kill = true
	_, _, _ = child(t, s.path, s.cache, f)
	rest, said, err := child(t, s.path, s.cache, faults.Fault{})
	if err != nil {
		t.Fatal(err, said)
	}
	if len(rest) > len(s.calls)*2/3 || sum(t, s.path+Suffix) != s.want {
		t.Errorf("it made %d of %d calls again", len(rest), len(s.calls))
	}
}

// TestFaults: a full disk is an error, and nothing remains. After other errors the next start continues. If the folder
// cannot be written to, the file is in the cache folder.
func TestFaults(t *testing.T) {
	t.Parallel()
	s := newSubject(t)
	rng := rand.New(rand.NewPCG(2, 1))
	for i := range 10 {
		os.Remove(s.path + Suffix)
		f := s.fault(rng.IntN(len(s.calls)))
		f.Errno, f.Sticky = unix.EIO, false
		if i%2 == 0 {
			for !s.calls[len(s.calls)/2].Writes() {
				t.Fatal("the call in the middle writes nothing")
			}
			f = s.fault(len(s.calls)/2 + i/2)
			f.Errno, f.Sticky = unix.ENOSPC, true
		}
		_, said, err := child(t, s.path, s.cache, f)
		t.Logf("%+v: %v %s", f, err, said)
		switch {
		case f.Sticky:
			if err == nil || !strings.Contains(said, "no space left on device: make room") || strings.Count(said, "\n") != 1 {
				t.Errorf("%+v: %v %s", f, err, said)
			}
			only(t, filepath.Dir(s.path), "m.gguf")
		case err != nil && (strings.Count(said, "\n") != 1 || !strings.Contains(said, s.path)):
			t.Errorf("%+v: %v %s", f, err, said)
		}
		if _, said, err := child(t, s.path, s.cache, faults.Fault{}); err != nil || sum(t, s.path+Suffix) != s.want {
			t.Fatalf("%+v: the next start: %v %s", f, err, said)
		}
	}
	os.Remove(s.path + Suffix)
	if _, said, err := child(t, s.path, s.cache, faults.Fault{Kind: s.calls[0].Kind(), Errno: unix.EROFS, Sticky: true}); err != nil {
		t.Fatal(err, said)
	}
	found, _ := filepath.Glob(filepath.Join(s.cache, "powerinfer", "neurons", "*"+Suffix))
	if len(found) != 1 || sum(t, found[0]) != s.want {
		t.Errorf("in the cache folder: %v", found)
	}
	only(t, filepath.Dir(s.path), "m.gguf")
	calls, said, err := child(t, s.path, s.cache, faults.Fault{})
	if err != nil || len(calls) > 0 {
		t.Errorf("it is made again: %v %s %v", err, said, calls)
	}
}
