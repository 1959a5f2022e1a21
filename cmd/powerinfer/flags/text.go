package flags

import (
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"
)

// Prompt returns the text of -p with its escapes replaced, unless --no-escape is given.
func Prompt(c *cli.Command) string {
	p := c.String("prompt")
	if c.Bool("no-escape") {
		return p
	}
	return WithoutEscapes(p)
}

// WithoutEscapes replaces \n, \r, \t, \", \', \\ and \xHH by their characters, as llama.cpp does. Other backslashes
// stay.
func WithoutEscapes(p string) string {
	const from, to = `nrt"'\`, "\n\r\t\"'\\"
	var b strings.Builder
	for {
		i := strings.IndexByte(p, '\\')
		if i < 0 || i+1 == len(p) {
			return b.String() + p
		}
		b.WriteString(p[:i])
		p = p[i:]
		if j := strings.IndexByte(from, p[1]); j >= 0 {
			b.WriteByte(to[j])
			p = p[2:]
			continue
		}
		if p[1] == 'x' && len(p) >= 4 {
			if v, err := strconv.ParseUint(p[2:4], 16, 8); err == nil {
				b.WriteByte(byte(v))
				p = p[4:]
				continue
			}
		}
		b.WriteByte('\\')
		p = p[1:]
	}
}
