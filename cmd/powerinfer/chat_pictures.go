package main

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/quantity"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/wholefile"
)

// mediaMark stands for a picture in a text that a user gives, as in llama.cpp.
const mediaMark = "<__media__>"

func imageFlag() cli.Flag {
	return flags.About(flags.PictureSubject, []cli.Flag{
		&cli.StringSliceFlag{Name: "image", Usage: "show the model the picture in `FILE` (JPEG, PNG, GIF, WebP, BMP) with the text, before it or in the place of " + mediaMark + "; may be repeated, or a list with commas"},
	})[0]
}

// attached is a picture for a message.
type attached struct {
	name string
	file []byte
	*powerinfer.Picture
}

// readPicture reads a file of a picture.
func readPicture(path string) (attached, error) {
	file, err := wholefile.Read(path, powerinfer.LargestPicture)
	if err != nil {
		return attached{}, err
	}
	p, err := powerinfer.ReadPicture(file)
	if err != nil {
		return attached{}, fmt.Errorf("%s: %w", path, err)
	}
	return attached{path, file, p}, nil
}

// readImages returns the pictures that --image names.
func readImages(c *cli.Command) (all []attached, err error) {
	for _, list := range c.StringSlice("image") {
		names := strings.Split(list, ",")
		if _, err := os.Stat(list); err == nil { // a name with commas
			names = []string{list}
		}
		for _, name := range names {
			p, err := readPicture(home(name))
			if err != nil {
				return nil, fmt.Errorf("--image: %w", err)
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// describe says what a picture is, and how many tokens it takes.
func (p *attached) describe(m *powerinfer.Model) (string, error) {
	_, places, err := m.TokenizeMarked(mediaMark, mediaMark, []*powerinfer.Picture{p.Picture}, false)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("picture: %s, %dx%d, %s", filepath.Base(p.name), p.Width, p.Height, quantity.Of(places.Tokens(), "token")), nil
}

// partsOf returns a message's content with pictures, in the places of marks in its text, or before it if there are none.
func partsOf(text string, pictures []attached) ([]chat.Part, error) {
	var parts []chat.Part
	add := func(text string) {
		if strings.TrimSpace(text) != "" {
			parts = append(parts, chat.Part{Type: "text", Text: text})
		}
	}
	texts := strings.Split(text, mediaMark)
	if len(texts) == 1 {
		texts = append(make([]string, len(pictures)), text)
	}
	if n := len(texts) - 1; n != len(pictures) {
		are := "are"
		if len(pictures) == 1 {
			are = "is"
		}
		return nil, fmt.Errorf("the text has %s %s, each of which stands for a picture, and there %s %s", mediaMark, quantity.Of(n, "time"), are, quantity.Of(len(pictures), "picture"))
	}
	for i, p := range pictures {
		add(texts[i])
		parts = append(parts, chat.Part{Type: "image", Picture: p.Picture})
	}
	add(texts[len(pictures)])
	return parts, nil
}

// pictureEnds match the ends of pictures' names.
const pictureEnds = `\.(?i:png|jpe?g|webp|gif|bmp)`

// character matches one of a name without quotes. In shells of Unix a backslash takes the next one as it is, and so
// terminals write the name of a file that is dragged into them.
var character = func() string {
	if runtime.GOOS == "windows" {
		return `[^\s"']`
	}
	return `(?:\\.|[^\s"'\\])`
}()

// pictureNames match what may be the path of a picture in a message: between quotes, or without spaces.
var pictureNames = regexp.MustCompile(`"[^"\n]+` + pictureEnds + `"|'[^'\n]+` + pictureEnds + `'|` + character + `+` + pictureEnds)

// pictureGoesOn matches what follows a match of pictureNames where that is not the end of a name.
var pictureGoesOn = regexp.MustCompile(`^[\w/\\-]|^\.\w`)

// findPictures returns a message with marks in the places of the paths of pictures that exist, and these paths.
func findPictures(message string) (marked string, paths []string) {
	var b strings.Builder
	from := 0
	for _, at := range pictureNames.FindAllStringIndex(message, -1) {
		name := strings.TrimLeft(message[at[0]:at[1]], "([{<")
		begin, path := at[1]-len(name), home(unquoted(name))
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || pictureGoesOn.MatchString(message[at[1]:]) {
			continue
		}
		b.WriteString(message[from:begin] + mediaMark)
		paths, from = append(paths, path), at[1]
	}
	return b.String() + message[from:], paths
}

// unquoted returns a word as a shell takes it.
func unquoted(word string) string {
	if n := len(word); n >= 2 && (word[0] == '"' || word[0] == '\'') && word[n-1] == word[0] {
		return word[1 : n-1]
	}
	if runtime.GOOS == "windows" {
		return word
	}
	return escapes.ReplaceAllString(word, "$1")
}

var escapes = regexp.MustCompile(`\\(.)`)

// home returns a path with the user's folder in the place of a tilde.
func home(path string) string {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || rest != "" && !os.IsPathSeparator(rest[0]) {
		return path
	}
	folder, err := os.UserHomeDir()
	if err != nil {
		return path
	}
	return folder + rest
}

// fileWords match the names in the argument of a command.
var fileWords = regexp.MustCompile(`"[^"]*"|'[^']*'|` + character + `+`)

// filesIn returns the names of files in the argument of a command: words as a shell has them, or all of it if that is the
// name of a file.
func filesIn(argument string) []string {
	if _, err := os.Stat(home(argument)); err == nil {
		return []string{home(argument)}
	}
	var names []string
	for _, word := range fileWords.FindAllString(argument, -1) {
		names = append(names, home(unquoted(word)))
	}
	return names
}

// fileIn returns the name of the file in the argument of a command that takes one.
func fileIn(argument string) string {
	if names := filesIn(argument); len(names) == 1 {
		return names[0]
	}
	return argument
}

// filesBeginning returns the last word of a command's argument as it was typed, and the words that it may become: the
// names of folders, and of files, or only of pictures, in the folder that it names.
func filesBeginning(argument string, pictures bool) (typed string, words []string) {
	at := fileWords.FindAllStringIndex(argument, -1)
	if begin := openQuote.FindStringSubmatch(argument); begin != nil {
		typed = begin[1]
	} else if n := len(at); n > 0 && at[n-1][1] == len(argument) {
		typed = argument[at[n-1][0]:]
	}
	quote := ""
	if typed != "" && (typed[0] == '"' || typed[0] == '\'') {
		quote = typed[:1]
	}
	path := typed[len(quote):]
	if quote == "" {
		path = unquoted(path)
	}
	folder := path[:strings.LastIndexFunc(path, func(r rune) bool { return r < utf8.RuneSelf && os.IsPathSeparator(byte(r)) })+1]
	entries, err := os.ReadDir(cmp.Or(home(folder), "."))
	if err != nil {
		return typed, nil
	}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(home(folder), e.Name())) // a link counts as what it leads to
		hidden := strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(path[len(folder):], ".")
		if err != nil || hidden || !strings.HasPrefix(e.Name(), path[len(folder):]) || pictures && !info.IsDir() && !pictureEnd.MatchString(e.Name()) {
			continue
		}
		word, end := folder+e.Name(), quote
		if quote == "" {
			word = quoted(word)
		}
		if info.IsDir() {
			end = string(os.PathSeparator)
		}
		words = append(words, quote+word+end)
	}
	return typed, words
}

var (
	openQuote  = regexp.MustCompile(`(?:^|\s)("[^"]*|'[^']*)$`)
	pictureEnd = regexp.MustCompile(pictureEnds + `$`)
	special    = regexp.MustCompile(`[\s"'\\]`)
)

// quoted returns a name as unquoted takes it.
func quoted(name string) string {
	switch {
	case !special.MatchString(name):
	case runtime.GOOS == "windows":
		if strings.ContainsAny(name, " '") {
			return `"` + name + `"`
		}
	default:
		return special.ReplaceAllString(name, `\$0`)
	}
	return name
}

// attachPictures keeps pictures for the next message.
func (t *talk) attachPictures(argument string) error {
	names := filesIn(argument)
	if len(names) == 0 {
		return errors.New("/image needs the name of a file")
	}
	return t.keepPictures(names)
}

func (t *talk) keepPictures(names []string) error {
	var more []attached
	for _, name := range names {
		p, err := readPicture(name)
		if err != nil {
			return err
		}
		more = append(more, p)
	}
	if err := t.tellPictures(more); err != nil {
		return err
	}
	t.pictures = append(t.pictures, more...)
	return nil
}

// tellPictures says what pictures the model is shown.
func (t *talk) tellPictures(all []attached) error {
	for i := range all {
		line, err := all[i].describe(t.model)
		if err != nil {
			return err
		}
		t.note("%s", line)
	}
	return nil
}

// pictured returns a message of a person with marks in the places of the paths of pictures, and these pictures; the
// model is shown them. done says that there is nothing to answer: they are kept for the next message.
func (t *talk) pictured(message string) (marked string, pictures []attached, done bool, err error) {
	marked, paths := findPictures(message)
	switch {
	case !t.interactive || len(paths) == 0 || strings.Contains(message, mediaMark):
		return message, nil, false, nil
	case !t.model.Sees():
		t.note("%s is not shown: the model reads text only", filepath.Base(paths[0]))
		return message, nil, false, nil
	case strings.TrimSpace(strings.ReplaceAll(marked, mediaMark, "")) == "":
		err := t.keepPictures(paths)
		if err == nil {
			t.note("now ask about it")
		}
		return "", nil, true, err
	}
	for _, path := range paths {
		p, err := readPicture(path)
		if err != nil {
			return "", nil, false, err
		}
		pictures = append(pictures, p)
	}
	return marked, pictures, false, t.tellPictures(pictures)
}

// beginsWithPicture reports whether a line begins with the path of a picture, which may begin as commands do.
func beginsWithPicture(line string) bool {
	marked, paths := findPictures(line)
	return len(paths) > 0 && strings.HasPrefix(marked, mediaMark)
}

// dataURI returns a picture's file as an address.
func dataURI(file []byte) string {
	return "data:" + http.DetectContentType(file) + ";base64," + base64.StdEncoding.EncodeToString(file)
}

// fileOf returns the file in a picture's address.
func fileOf(uri string) ([]byte, error) {
	_, data, ok := strings.Cut(uri, ";base64,")
	if !ok || !strings.HasPrefix(uri, "data:") {
		return nil, errors.New("the picture is not in the file: its address is no data URI in base64")
	}
	return base64.StdEncoding.DecodeString(data)
}

// withPictures returns the tokens of a text that is continued, with pictures in the places of marks in it, or before it,
// and has g show them.
func withPictures(m *powerinfer.Model, text string, pictures []attached, g *powerinfer.Generation) ([]int32, error) {
	if !strings.Contains(text, mediaMark) {
		text = strings.Repeat(mediaMark, len(pictures)) + text
	}
	var images []*powerinfer.Picture
	for i := range pictures {
		line, err := pictures[i].describe(m)
		if err != nil {
			return nil, err
		}
		fmt.Fprintln(screen.Err, line)
		images = append(images, pictures[i].Picture)
	}
	if _, err := partsOf(text, pictures); err != nil {
		return nil, err
	}
	ids, places, err := m.TokenizeMarked(text, mediaMark, images, false)
	g.Pictures = places
	return ids, err
}
