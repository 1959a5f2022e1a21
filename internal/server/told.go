package server

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// told returns an error's text for clients. It shows only the last part of each path, so that clients do not learn the
// machine's folders. The log has the whole text, see noteError.
func told(err error) string {
	text := err.Error()
	for _, path := range pathsOf(err) {
		if strings.ContainsAny(path, `/\`) {
			text = strings.ReplaceAll(text, path, filepath.Base(path))
		}
	}
	return withoutFolders(text, false)
}

// toldOfMachine is told for errors without anything from a client, so that everything that looks like a relative path
// is one.
func toldOfMachine(err error) string { return withoutFolders(told(err), true) }

// pathsOf returns the paths that the system's errors in err hold.
func pathsOf(err error) []string {
	var paths []string
	switch e := err.(type) {
	case *fs.PathError:
		paths = []string{e.Path}
	case *os.LinkError:
		paths = []string{e.Old, e.New}
	case *located:
		paths = []string{e.path}
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			paths = append(paths, pathsOf(inner)...)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			paths = append(paths, pathsOf(inner)...)
		}
	}
	return paths
}

// located is an error about the file at path. Its text may name the file.
type located struct {
	path string
	error
}

// About returns err as an error about the file at path. Clients see the file's name in it, and not its folder.
func About(path string, err error) error {
	if err == nil {
		return nil
	}
	return &located{path, err}
}

func (l *located) Unwrap() error { return l.error }

// withoutFolders returns text with each path replaced by its last part. Paths are absolute, or begin like ./ or ~/;
// with relative set, also those of files below the working directory that have an extension. URLs stay.
func withoutFolders(text string, relative bool) string {
	var b strings.Builder
	before := ' '
	for i := 0; i < len(text); {
		if n := pathLength(text[i:], before, relative); n > 0 {
			path := strings.TrimRight(text[i:i+n], `/\`)
			b.WriteString(path[strings.LastIndexAny(path, `/\`)+1:])
			i += n
			before = ' '
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		b.WriteString(text[i : i+n]) // unchanged, even if it is not UTF-8
		before = r
		i += n
	}
	return b.String()
}

// around are the characters, in addition to spaces, that may surround a path in a message.
const around = "\"'`()[]{}<>|,;="

// pathLength returns the length of the path at the beginning of text; 0: there is none. before is the character before
// text.
func pathLength(text string, before rune, relative bool) int {
	if !unicode.IsSpace(before) && before != ':' && !strings.ContainsRune(around, before) {
		return 0
	}
	n := wordLength(text, before)
	word := text[:n]
	rooted := len(word) > 1 && (word[0] == '/' && word[1] != '/' || strings.HasPrefix(word, `\\`)) ||
		len(word) > 2 && word[1] == ':' && (word[2] == '\\' || word[2] == '/' && !strings.HasPrefix(word[2:], "//")) && before != ':'
	for _, start := range []string{"~/", `~\`, "./", `.\`, "../", `..\`, "file://"} {
		rooted = rooted || strings.HasPrefix(word, start)
	}
	if !rooted {
		ext := filepath.Ext(word)
		inFolder := relative && strings.ContainsAny(word, `/\`) && !strings.Contains(word, "://") && len(ext) > 1 && !strings.ContainsAny(ext, `/\`) && unicode.IsLetter(rune(ext[1]))
		if !inFolder || before == ':' {
			return 0
		}
	}
	for n < len(text) && text[n] == ' ' { // a folder's name has a space where more of the path follows
		next := wordLength(text[n+1:], before)
		if at := strings.IndexAny(text[n+1:n+1+next], `/\`); at < 1 || strings.Contains(text[n+1:n+1+next], "://") {
			break
		}
		n += 1 + next
	}
	return n
}

// wordLength returns the length of the word at the beginning of text. If before is a quotation mark, the word ends at
// the next one. Otherwise it ends at a space, at a character of around, or at a colon that a space follows.
func wordLength(text string, before rune) int {
	if before == '"' || before == '\'' || before == '`' {
		if end := strings.IndexRune(text, before); end >= 0 {
			return end
		}
	}
	for i, r := range text {
		if unicode.IsSpace(r) || strings.ContainsRune(around, r) {
			return i
		}
		if rest := text[i:]; r == ':' && (len(rest) == 1 || unicode.IsSpace(rune(rest[1]))) {
			return i
		}
	}
	return len(text)
}

// noteError notes the error that answers the request of w. The log then has its whole text if clients are not told all
// of it, or if the server is at fault.
func noteError(w http.ResponseWriter, err error) {
	for w != nil {
		if s, ok := w.(*statusWriter); ok {
			s.failed = err
			return
		}
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		w = inner.Unwrap()
	}
}

// hiddenText returns the whole text of an error that noteError was given. It is empty if clients were told all of it
// and the server is not at fault.
func hiddenText(err error) string {
	if err == nil {
		return ""
	}
	e := errorOf(err)
	if e.whole == "" && e.Type == serverError {
		return e.Message
	}
	return e.whole
}
