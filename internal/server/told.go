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

// told returns the text of an error for clients, who are not to learn the folders of the server's machine: a path is
// shown as its last part. The log has the whole text, see noteError.
func told(err error) string {
	text := err.Error()
	for _, path := range pathsOf(err) {
		if strings.ContainsAny(path, `/\`) {
			text = strings.ReplaceAll(text, path, filepath.Base(path))
		}
	}
	return withoutFolders(text, false)
}

// toldOfMachine is told for errors that say nothing of what a client sent: what looks like a file in a folder is one.
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

// located is an error about a file that it may name.
type located struct {
	path string
	error
}

// About returns an error about a file, in whose text clients see the file's name and not its folder.
func About(path string, err error) error {
	if err == nil {
		return nil
	}
	return &located{path, err}
}

func (l *located) Unwrap() error { return l.error }

// withoutFolders returns a text in which paths are shown as their last part: those that begin at a root, and where
// relative is set also those of files below the working directory, which have an extension. Addresses stay.
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
		b.WriteString(text[i : i+n]) // as it is, also where it is no UTF-8
		before = r
		i += n
	}
	return b.String()
}

// around are what a path in a message stands between, besides spaces.
const around = "\"'`()[]{}<>|,;="

// pathLength returns the length of the path that text begins with, which follows the character before; 0: none.
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

// wordLength returns the length of the word that text begins with: up to a space or what paths stand between, or to the
// quotation mark that ends it where it follows one. A colon ends it where a message goes on.
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

// noteError has the log tell an error that the request of w is answered with, if clients are not told all of it, or it
// is the server's own.
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

// hiddenText returns the whole text of an error that noteError was given, or nothing where clients were told it and it is
// no fault of the server.
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
