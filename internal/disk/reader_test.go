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

// What little is between pieces of one call is read over; where there is more, there are several reads.
func TestNearPiecesAreReadAtOnce(t *testing.T) {
	path, content := written(t, 1<<20)
	f := open(t, path)
	r := newReader(t, 8)
	var c came
	var list []*Piece
	for _, at := range []int64{0, 8 << 10, 30 << 10, 100 << 10, 124 << 10, 200 << 10, 140 << 10} {
		list = append(list, c.piece(f, at, 8<<10))
	}
	r.Read(list...)
	waitFor(r)
	for _, g := range c.list {
		if g.err != nil || !bytes.Equal(g.data, content[g.at:g.at+8<<10]) {
			t.Errorf("at %d: %v, or other bytes", g.at, g.err)
		}
	}
	if u := r.Use(); u.Reads != 4 || u.Bytes < 38<<10+32<<10+2*8<<10 {
		t.Errorf("%d pieces came by %+v", len(c.list), u)
	}
}
