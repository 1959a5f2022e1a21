package attachment

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"unicode/utf8"
)

// pictureEnds matches the endings of pictures' names.
const pictureEnds = `\.(?i:png|jpe?g|webp|gif|bmp)`

// character matches a character of a name without quotes. In Unix shells a backslash quotes the next character.
// Terminals write the name of a dragged file like this.
var character = func() string {
	if runtime.GOOS == "windows" {
		return `[^\s"']`
	}
	return `(?:\\.|[^\s"'\\])`
}()

// pictureNames matches possible paths of pictures in a message: in quotes, or without spaces.
var pictureNames = regexp.MustCompile(`"[^"\n]+` + pictureEnds + `"|'[^'\n]+` + pictureEnds + `'|` + character + `+` + pictureEnds)

// pictureGoesOn matches text after a match of pictureNames that shows that the name continues.
var pictureGoesOn = regexp.MustCompile(`^[\w/\\-]|^\.\w`)

// Find returns a message with marks in place of the paths of existing pictures, and these paths.
func Find(message string) (marked string, paths []string) {
	var b strings.Builder
	from := 0
	for _, at := range pictureNames.FindAllStringIndex(message, -1) {
		name := strings.TrimLeft(message[at[0]:at[1]], "([{<")
		begin, path := at[1]-len(name), Home(unquoted(name))
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || pictureGoesOn.MatchString(message[at[1]:]) {
			continue
		}
		b.WriteString(message[from:begin] + Mark)
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

// Home replaces a leading tilde by the user's folder.
func Home(path string) string {
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

// Files returns the names of files in a command's argument: its words, split as a shell splits them, or the whole
// argument if it names a file.
func Files(argument string) []string {
	if _, err := os.Stat(Home(argument)); err == nil {
		return []string{Home(argument)}
	}
	var names []string
	for _, word := range fileWords.FindAllString(argument, -1) {
		names = append(names, Home(unquoted(word)))
	}
	return names
}

// File returns the name of the file in the argument of a command that takes one.
func File(argument string) string {
	if names := Files(argument); len(names) == 1 {
		return names[0]
	}
	return argument
}

// Complete returns the last word of a command's argument as typed, and its completions: names of folders and files, or
// only of folders and pictures.
func Complete(argument string, pictures bool) (typed string, words []string) {
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
	entries, err := os.ReadDir(cmp.Or(Home(folder), "."))
	if err != nil {
		return typed, nil
	}
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(Home(folder), e.Name())) // follows links
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

// BeginsMessage reports whether a line begins with the path of a picture. Like commands, a path may begin with a slash.
func BeginsMessage(line string) bool {
	marked, paths := Find(line)
	return len(paths) > 0 && strings.HasPrefix(marked, Mark)
}
