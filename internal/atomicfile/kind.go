package atomicfile

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// Kind is a kind of file that the program writes. A file that a user names is replaced only if it is of the same kind
// or empty, as mktemp makes files. The zero Kind replaces every file; it is for files in the program's own folders. New
// files are readable only by their user, unless their kind is shared.
type Kind struct {
	Name   string                 // with its article, for messages
	Is     func(head []byte) bool // reports whether a file with this beginning is of the kind
	Shared bool                   // such files hold no private text: the umask says who may read a new one
}

// Public returns the kind as a shared one.
func (k Kind) Public() Kind {
	k.Shared = true
	return k
}

// Head is the number of first bytes that show a file's kind.
const Head = 4 << 10

// Begins returns a kind of files that begin with one of these texts.
func Begins(name string, texts ...string) Kind {
	return Kind{Name: name, Is: func(head []byte) bool {
		for _, text := range texts {
			if strings.HasPrefix(string(head), text) {
				return true
			}
		}
		return false
	}}
}

// Matches returns a kind of files with a beginning that matches an expression.
func Matches(name, expression string) Kind {
	return Kind{Name: name, Is: regexp.MustCompile(expression).Match}
}

// check refuses a regular file that is of another kind and not empty. size is its size in bytes.
func (k *Kind) check(path string, size int64) error {
	if k.Is == nil || size == 0 {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%s cannot be read, so that it is not replaced: %w; name another file", path, cause(err))
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, Head))
	if err != nil {
		return fmt.Errorf("%s cannot be read, so that it is not replaced: %w; name another file", path, cause(err))
	}
	if !k.Is(head) {
		return foreign("%s is not %s and is not replaced; name another file, or remove it first", path, k.Name)
	}
	return nil
}
