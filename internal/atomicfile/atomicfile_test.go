package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// only checks that a folder has exactly these names, and no temporary files.
func only(t *testing.T, dir string, names ...string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("the folder holds %q, want %q", got, names)
	}
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s holds %q, want %q (%v)", filepath.Base(path), got, want, err)
	}
}

// symlink makes a symbolic link, and fails where none is there then: older versions of wine say that they made one.
func symlink(target, path string) error {
	err := os.Symlink(target, path)
	if err == nil {
		_, err = os.Readlink(path)
	}
	return err
}

func text(s string) func(*File) error {
	return func(f *File) error { _, err := f.WriteString(s); return err }
}

// A file appears when it is complete; until then, and where writing fails, the old one is as it was.
func TestComplete(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := Write(path, Kind{}, text("old")); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("no more words")
	err := Write(path, Kind{}, func(f *File) error {
		if err := text("half")(f); err != nil {
			return err
		}
		holds(t, path, "old")
		return cause
	})
	if !errors.Is(err, cause) || !strings.Contains(err.Error(), path) {
		t.Errorf("a failed write: %v", err)
	}
	holds(t, path, "old")
	only(t, dir, "f")
	if err := Write(path, Kind{}, text("new")); err != nil {
		t.Fatal(err)
	}
	holds(t, path, "new")
	only(t, dir, "f")
}

func TestCheckLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := Check(filepath.Join(dir, "f"), Kind{}); err != nil {
		t.Error(err)
	}
	only(t, dir)
}

// TestLink: neither a link nor its target is replaced.
func TestLink(t *testing.T) {
	dir, far := t.TempDir(), t.TempDir()
	target, link, chain := filepath.Join(far, "target"), filepath.Join(dir, "link"), filepath.Join(dir, "chain")
	put(t, target, "old")
	if err := errors.Join(symlink(target, link), symlink("link", chain)); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	if err := Write(chain, Kind{}, text("new")); err == nil || !strings.Contains(err.Error(), chain+" is a symbolic link") {
		t.Errorf("%v", err)
	}
	holds(t, target, "old")
	only(t, dir, "chain", "link")
	only(t, far, "target")
	if to, err := os.Readlink(chain); err != nil || to != "link" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
}

// TestKind: a file of the same kind, or an empty one, is replaced; any other stays, also one that appears during
// writing.
func TestKind(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	kind := Begins("a poem", "Roses", "Violets")
	for _, old := range []string{"", "Violets are blue"} {
		put(t, path, old)
		if err := Write(path, kind, text("Roses")); err != nil {
			t.Errorf("%q: %v", old, err)
		}
		holds(t, path, "Roses")
	}
	put(t, path, "a letter")
	for name, err := range map[string]error{"Check": Check(path, kind), "Write": Write(path, kind, text("Roses"))} {
		if err == nil || err.Error() != path+" is not a poem and is not replaced; name another file, or remove it first" {
			t.Errorf("%s: %v", name, err)
		}
	}
	holds(t, path, "a letter")
	only(t, dir, "f")
	for _, before := range []string{"", "Violets"} {
		os.Remove(path)
		if before != "" {
			put(t, path, before)
		}
		err := Write(path, kind, func(f *File) error {
			put(t, path, "a letter")
			return text("Roses")(f)
		})
		_, name, ok := strings.Cut(fmt.Sprint(err), "the complete new file is ")
		if !ok {
			t.Fatalf("%v", err)
		}
		holds(t, path, "a letter")
		holds(t, name, "Roses")
		os.Remove(name)
		only(t, dir, "f")
	}
}

// TestCommitAll: of several files either all appear or none.
func TestCommitAll(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	begin := func(names ...string) (files []*File) {
		for _, name := range names {
			f, err := Create(at(name), Kind{})
			if err == nil {
				err = text("new")(f)
			}
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		return files
	}
	put(t, at("b"), "old")
	if err := Commit(begin("a", "b", "c")...); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		holds(t, at(name), "new")
	}
	only(t, dir, "a", "b", "c")

	put(t, at("b"), "old")
	os.Remove(at("a"))
	os.Remove(at("c"))
	files := begin("a", "b", "c")
	files[2].path = at("no/c") // an impossible place
	if err := Commit(files...); err == nil || !strings.Contains(err.Error(), "no/c") {
		t.Errorf("%v", err)
	}
	holds(t, at("b"), "old")
	only(t, dir, "b")
	files = begin("a", "b", "c")
	if err := os.Mkdir(at("c"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Commit(files...); err == nil {
		t.Error("a folder was replaced")
	}
	holds(t, at("b"), "old")
	only(t, dir, "b", "c")
	files = begin("a", "b")
	files[1].temporary = at("gone")
	if err := Commit(files...); err == nil || !strings.HasPrefix(err.Error(), "writing "+at("b")+": ") {
		t.Errorf("%v", err)
	}
	holds(t, at("b"), "old")
	only(t, dir, "b", "c")
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	put(t, at("file"), "text")
	if err := os.Mkdir(at("folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	cases := map[string]string{
		at("folder"):      "is a folder; name a file in it",
		at("absent/name"): "cannot be written: ",
		at("file/name"):   "cannot be written: ",
		"":                "has no name",
	}
	if symlink(at("nowhere"), at("dangling")) == nil {
		cases[at("dangling")] = "is a symbolic link to nothing"
	}
	if symlink(at("loop"), at("loop")) == nil {
		cases[at("loop")] = "cannot be written: "
	}
	if symlink(at("folder"), at("to folder")) == nil {
		cases[at("to folder")] = "is a folder"
	}
	for path, want := range cases {
		for name, f := range map[string]func() error{
			"Check": func() error { return Check(path, Kind{}) },
			"Write": func() error { return Write(path, Kind{}, text("a")) },
		} {
			err := f()
			if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), path) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s(%q): %v, want %q", name, path, err, want)
			}
		}
	}
	holds(t, at("file"), "text")
}

// TestNoRoom: missing disk space is an error before anything is written, and a disk that fills up leaves no file.
func TestNoRoom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	err := Write(path, Kind{}, func(f *File) error { return f.Room(1 << 62) })
	if err == nil || !strings.Contains(err.Error(), "make room") || !strings.Contains(err.Error(), path) {
		t.Errorf("a file of 4 EiB: %v", err)
	}
	full, openErr := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if openErr != nil {
		t.Skip("there is no /dev/full here")
	}
	err = Write(path, Kind{}, func(f *File) error {
		f.File.Close()
		f.File = full
		_, err := f.Write([]byte("x"))
		return err
	})
	if want := "writing " + path + ": no space left on device: make room, or name a file on another disk"; err == nil || err.Error() != want {
		t.Errorf("a full disk: %v, want %s", err, want)
	}
	only(t, filepath.Dir(path))
}
