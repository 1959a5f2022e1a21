package disk

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/powerinfer-go/powerinfer/internal/testenv"
)

// A kernel that takes no submission any more is done without.
func TestRingThatTakesNothing(t *testing.T) {
	path, content := written(t, 1<<20)
	f := open(t, path)
	r := newReader(t, 8)
	u, ok := r.ring.(*uring)
	if !ok {
		testenv.Missing(t, "io_uring", "there is no io_uring, or it is not allowed")
	}
	_ = unix.Close(u.fd)
	u.fd = -1
	var c came
	for i := range int64(50) {
		r.Read(c.piece(f, i*7000, 7000))
	}
	waitFor(r)
	for _, g := range c.list {
		if g.err != nil || !bytes.Equal(g.data, content[g.at:g.at+7000]) {
			t.Errorf("at %d: %v, or other bytes", g.at, g.err)
		}
	}
	if len(c.list) != 50 || len(u.unused) != 8 {
		t.Errorf("%d pieces came, and %d numbers are unused; want 50, 8", len(c.list), len(u.unused))
	}
}

// A file system without direct reads is read by its page cache, which forgets what was read.
func TestWithoutDirectReads(t *testing.T) {
	path, content := written(t, 1<<20+77)
	f := open(t, path)
	o := f.source.(*opened)
	err := o.conn.Control(func(fd uintptr) {
		flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
		if err == nil {
			_, err = unix.FcntlInt(fd, unix.F_SETFL, flags&^unix.O_DIRECT)
		}
		if err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	o.read, o.fd = readAndForget, -1
	r := newReader(t, 8)
	var c came
	for at := int64(0); at < int64(len(content)); at += 50_000 {
		r.Read(c.piece(f, at, min(50_000, len(content)-int(at))))
	}
	waitFor(r)
	for _, g := range c.list {
		if g.err != nil || !bytes.Equal(g.data, content[g.at:g.at+int64(len(g.data))]) {
			t.Errorf("at %d: %v, or other bytes", g.at, g.err)
		}
	}
}
