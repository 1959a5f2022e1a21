package main

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/vision/visiontest"
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
	const m = mediaMark
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
		marked, paths := findPictures(c.message)
		if marked != c.marked || !slices.Equal(paths, c.paths) {
			t.Errorf("%q: %q %q, want %q %q", c.message, marked, paths, c.marked, c.paths)
		}
	}
	if runtime.GOOS != "windows" {
		if marked, paths := findPictures(`my\ cat.webp?`); marked != m+"?" || !slices.Equal(paths, []string{"my cat.webp"}) {
			t.Errorf("a name with a backslash: %q %q", marked, paths)
		}
	}
	if !beginsWithPicture(slash+"/a.png what?") || beginsWithPicture("/image a.png") || beginsWithPicture("/clear") {
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
		if got := filesIn(argument); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", argument, got, want)
		}
	}
	for argument, want := range map[string]string{"my cat.webp": "my cat.webp", `"new talk.json"`: "new talk.json", "new talk.json": "new talk.json"} {
		if got := fileIn(argument); got != want {
			t.Errorf("%q: %q, want %q", argument, got, want)
		}
	}
}

// What a tab makes of a name is a word that means this file.
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
		typed, words := filesBeginning(c.argument, true)
		var names []string
		for _, w := range words {
			if strings.HasSuffix(w, sep) {
				names = append(names, strings.TrimLeft(w, `"'`))
				continue
			}
			if !strings.HasPrefix(w, "~") {
				w = strings.Join(filesIn(w), "|")
			}
			names = append(names, w)
		}
		if typed != c.typed || !slices.Equal(names, c.want) {
			t.Errorf("%q: %q becomes %q, want %q and %q", c.argument, typed, words, c.typed, c.want)
		}
	}
	if _, words := filesBeginning("a", false); !slices.Equal(words, []string{"a.png", "all.txt"}) {
		t.Errorf("any file: %q", words)
	}
}

func TestPartsOf(t *testing.T) {
	p := []attached{{Picture: &powerinfer.Picture{Width: 1}}, {Picture: &powerinfer.Picture{Width: 2}}}
	text := func(s string) chat.Part { return chat.Part{Type: "text", Text: s} }
	image := func(i int) chat.Part { return chat.Part{Type: "image", Picture: p[i].Picture} }
	for message, want := range map[string][]chat.Part{
		"what?":                       {image(0), image(1), text("what?")},
		"a <__media__><__media__>":    {text("a "), image(0), image(1)},
		"<__media__> or <__media__>?": {image(0), text(" or "), image(1), text("?")},
	} {
		if got, err := partsOf(message, p); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", message, got, err)
		}
	}
	if _, err := partsOf("only <__media__>", p); err == nil {
		t.Error("a picture without its place is left out")
	}
}

// A conversation with pictures comes back from its file.
func TestSavedPictures(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := (visiontest.Picture{Name: "p", Width: 5, Height: 3}).Write("p.png"); err != nil {
		t.Fatal(err)
	}
	p, err := readPicture("p.png")
	if err != nil {
		t.Fatal(err)
	}
	parts, err := partsOf("what is "+mediaMark+"?", []attached{p})
	if err != nil {
		t.Fatal(err)
	}
	c := conversation{system: "Be brief."}
	c.show(parts, []attached{p})
	c.add(chat.Message{Role: "assistant", Content: "Noise."})
	if err := c.save("talk.json"); err != nil {
		t.Fatal(err)
	}
	var loaded conversation
	if err := loaded.load("talk.json"); err != nil {
		t.Fatal(err)
	}
	got := loaded.messages[0].Parts
	if len(loaded.messages) != 2 || len(got) != 3 || got[0].Text != "what is " || got[2].Text != "?" || got[1].Picture.Sum() != p.Sum() {
		t.Errorf("loaded: %+v", loaded.messages)
	}
	prompt, err := loaded.prompt()
	if err != nil || len(prompt.Pictures) != 1 || prompt.Text != "Be brief.\nwhat is "+prompt.Mark+"?Noise." {
		t.Errorf("the prompt is %+v, %v", prompt, err)
	}
	if err := loaded.save("again.json"); err != nil {
		t.Fatal(err)
	}
	a, _ := os.ReadFile("talk.json")
	if b, _ := os.ReadFile("again.json"); string(a) != string(b) {
		t.Error("saved again it is another file")
	}
	for _, bad := range []string{
		`{"messages":[{"role":"user","content":5}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]}`,
		`{"messages":[{"role":"assistant","content":[]}]}`,
	} {
		if err := os.WriteFile("bad.json", []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := loaded.load("bad.json"); err == nil {
			t.Errorf("%s is loaded", bad)
		}
	}
}
