package disk

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// written writes a file of so many random bytes and returns it.
func written(t *testing.T, size int) (path string, content []byte) {
	content = make([]byte, size)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(content)
	path = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, content
}

func open(t *testing.T, path string) *File {
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func newReader(t *testing.T, depth int) *Reader {
	r, err := NewReader(depth)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// withoutRing has threads read all.
func withoutRing(r *Reader) {
	if r.ring != nil {
		r.ring.close()
		r.ring = nil
	}
}

// Whatever pieces are asked for, they are the file's bytes.
func TestPiecesAreTheFilesBytes(t *testing.T) {
	path, content := written(t, 3<<20+12345)
	f := open(t, path)
	for _, depth := range []int{1, 2, 16, 17} {
		r := newReader(t, depth)
		if depth%2 == 1 {
			withoutRing(r)
		}
		rng := rand.New(rand.NewPCG(1, uint64(depth)))
		var wait sync.WaitGroup
		for range 60 {
			var list []*Piece
			for range rng.IntN(8) {
				at := rng.IntN(len(content) + 1)
				if rng.IntN(4) == 0 && len(list) > 0 { // it follows the last
					last := list[len(list)-1]
					at = int(last.Offset) + last.Bytes
				}
				n := rng.IntN(min(len(content)-at, 1<<(4+rng.IntN(17))) + 1)
				p := &Piece{File: f, Offset: int64(at), Bytes: n}
				wait.Add(1)
				p.Done = func(data []byte, err error) {
					defer wait.Done()
					if err != nil {
						t.Error(err)
					} else if !bytes.Equal(data, content[at:at+n]) {
						t.Errorf("%d bytes at %d differ from the file's", n, at)
					}
				}
				list = append(list, p)
			}
			if rng.IntN(2) == 0 {
				r.Read(list...)
			} else {
				r.Later(list...)
			}
		}
		wait.Wait()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
