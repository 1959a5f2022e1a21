package flags

import (
	"errors"
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

// Stops returns the flag of texts that end an answer.
func Stops() cli.Flag {
	return &cli.StringSliceFlag{Name: "reverse-prompt", Aliases: []string{"r"}, Category: FormSubject, Usage: "end the text before `TEXT`; may be repeated"}
}

// ReadStops returns the texts of Stops with their escapes replaced, unless --no-escape is given.
func ReadStops(c *cli.Command) (stops []string, err error) {
	for _, text := range c.StringSlice("reverse-prompt") {
		if text == "" {
			return nil, errors.New("--reverse-prompt is empty; leave it out to have the model end the text")
		}
		if !c.Bool("no-escape") {
			text = WithoutEscapes(text)
		}
		stops = append(stops, text)
	}
	return stops, nil
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
