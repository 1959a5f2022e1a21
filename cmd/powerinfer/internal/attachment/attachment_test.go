package attachment

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/internal/chat"
)

// inFolder makes a folder of files, goes there, and returns it.
func inFolder(t *testing.T, names ...string) string {
	dir := t.TempDir()
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("HOME", dir)
	t.Setenv("USERPROFILE", dir)
	return dir
}

func TestFindPictures(t *testing.T) {
	dir := inFolder(t, "a.png", "b.JPEG", "my cat.webp", "sub/c.gif", "text.txt", "d.png.txt")
	slash := filepath.ToSlash(dir)
	const m = Mark
	for _, c := range []struct {
		message, marked string
		paths           []string
	}{
		{"what is in a.png?", "what is in " + m + "?", []string{"a.png"}},
		{"compare a.png, b.JPEG and ./sub/c.gif.", "compare " + m + ", " + m + " and " + m + ".", []string{"a.png", "b.JPEG", "./sub/c.gif"}},
		{`'my cat.webp' sleeps`, m + " sleeps", []string{"my cat.webp"}},
		{`see "my cat.webp"`, "see " + m, []string{"my cat.webp"}},
		{"(a.png)", "(" + m + ")", []string{"a.png"}},
		{slash + "/a.png what is it?", m + " what is it?", []string{slash + "/a.png"}},
		{"~/a.png", m, []string{dir + "/a.png"}},
		{"two\n~/a.png\nlines", "two\n" + m + "\nlines", []string{dir + "/a.png"}},
		{"text.txt d.png.txt a.pngs absent.png sub/ a.png/b it's", "text.txt d.png.txt a.pngs absent.png sub/ a.png/b it's", nil},
		{"don't take https://example.com/a.png", "don't take https://example.com/a.png", nil},
	} {
		marked, paths := Find(c.message)
		if marked != c.marked || !slices.Equal(paths, c.paths) {
			t.Errorf("%q: %q %q, want %q %q", c.message, marked, paths, c.marked, c.paths)
		}
	}
	if runtime.GOOS != "windows" {
		if marked, paths := Find(`my\ cat.webp?`); marked != m+"?" || !slices.Equal(paths, []string{"my cat.webp"}) {
			t.Errorf("a name with a backslash: %q %q", marked, paths)
		}
	}
	if !BeginsMessage(slash+"/a.png what?") || BeginsMessage("/image a.png") || BeginsMessage("/clear") {
		t.Error("a path is taken for a command, or a command for a path")
	}
}

func TestFilesIn(t *testing.T) {
	dir := inFolder(t, "a.png", "my cat.webp")
	for argument, want := range map[string][]string{
		"a.png":                       {"a.png"},
		"my cat.webp":                 {"my cat.webp"},
		`"my cat.webp" a.png`:         {"my cat.webp", "a.png"},
		`'my cat.webp' "x y" ~/z.png`: {"my cat.webp", "x y", dir + "/z.png"},
		"":                            nil,
		"~other/a.png":                {"~other/a.png"},
	} {
		if got := Files(argument); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", argument, got, want)
		}
	}
	for argument, want := range map[string]string{"my cat.webp": "my cat.webp", `"new talk.json"`: "new talk.json", "new talk.json": "new talk.json"} {
		if got := File(argument); got != want {
			t.Errorf("%q: %q, want %q", argument, got, want)
		}
	}
}

// TestFilesBeginning: a completed word names the file that it was completed to.
func TestFilesBeginning(t *testing.T) {
	inFolder(t, "a.png", "all.txt", "my cat.webp", "sub/c.gif", "sub/.hidden.png", ".dot.png")
	sep := string(os.PathSeparator)
	for _, c := range []struct {
		argument, typed string
		want            []string
	}{
		{"a", "a", []string{"a.png"}},
		{"", "", []string{"a.png", "my cat.webp", "sub" + sep}},
		{"a.png m", "m", []string{"my cat.webp"}},
		{"sub/", "sub/", []string{"sub/c.gif"}},
		{"sub/.h", "sub/.h", []string{"sub/.hidden.png"}},
		{"~/su", "~/su", []string{"~/sub" + sep}},
		{`"my c`, `"my c`, []string{"my cat.webp"}},
		{"'s", "'s", []string{"sub" + sep}},
		{"absent/x", "absent/x", nil},
	} {
		typed, words := Complete(c.argument, true)
		var names []string
		for _, w := range words {
			if strings.HasSuffix(w, sep) {
				names = append(names, strings.TrimLeft(w, `"'`))
				continue
			}
			if !strings.HasPrefix(w, "~") {
				w = strings.Join(Files(w), "|")
			}
			names = append(names, w)
		}
		if typed != c.typed || !slices.Equal(names, c.want) {
			t.Errorf("%q: %q becomes %q, want %q and %q", c.argument, typed, words, c.typed, c.want)
		}
	}
	if _, words := Complete("a", false); !slices.Equal(words, []string{"a.png", "all.txt"}) {
		t.Errorf("any file: %q", words)
	}
}

func TestPartsOf(t *testing.T) {
	p := []Picture{{Picture: &powerinfer.Picture{Width: 1}}, {Picture: &powerinfer.Picture{Width: 2}}}
	text := func(s string) chat.Part { return chat.Part{Type: "text", Text: s} }
	image := func(i int) chat.Part { return chat.Part{Type: "image", Picture: p[i].Picture} }
	for message, want := range map[string][]chat.Part{
		"what?":                       {image(0), image(1), text("what?")},
		"a <__media__><__media__>":    {text("a "), image(0), image(1)},
		"<__media__> or <__media__>?": {image(0), text(" or "), image(1), text("?")},
	} {
		if got, err := Parts(message, p); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", message, got, err)
		}
	}
	if _, err := Parts("only <__media__>", p); err == nil {
		t.Error("a picture without its place is left out")
	}
}
