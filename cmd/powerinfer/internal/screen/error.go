package screen

import (
	"errors"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/setting"
	"github.com/powerinfer-go/powerinfer/internal/terminal"
)

// Plain returns a name, quoted if it contains something that a terminal would obey instead of print.
func Plain(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		return quoted
	}
	return name
}

// strconvError matches strconv's errors, which repeat the value and name strconv's functions. Its groups are the
// function and the cause.
var strconvError = regexp.MustCompile(`strconv\.(\w+): parsing "(?:[^"\\]|\\.)*": (invalid syntax)?`)

// plainNumbers returns text with strconv's errors in plain words.
func plainNumbers(text string) string {
	return strconvError.ReplaceAllStringFunc(text, func(found string) string {
		switch m := strconvError.FindStringSubmatch(found); {
		case m[2] == "":
			return "" // the cause follows
		case m[1] == "ParseFloat":
			return "it is not a number"
		case m[1] == "ParseBool":
			return "it is neither true nor false"
		}
		return "it is not a whole number"
	})
}

// plainFiles returns err's text without the system call that failed on a file.
func plainFiles(text string, err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok && slices.Contains([]string{"open", "stat", "lstat", "CreateFile"}, e.Op) {
		return strings.Replace(text, e.Error(), e.Path+": "+e.Err.Error(), 1)
	}
	return text
}

// longestError limits errors in characters, because names in files can have any length.
const longestError = 1000

// Error returns an error in one line, whatever text of a library or a file it contains. It names settings by their
// flags.
func Error(err error) string {
	spaces := strings.NewReplacer("\n", " ", "\t", " ", "\r", " ", "\u2028", " ", "\u2029", " ")
	line := []rune(terminal.Clean(spaces.Replace(plainNumbers(plainFiles(setting.Text(err, setting.Flags), err)))))
	if len(line) > longestError {
		return string(line[:longestError]) + "…"
	}
	return string(line)
}
