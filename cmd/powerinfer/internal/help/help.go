// Package help prints what a command does and which flags it has, in lines that fit every terminal. A command with many
// flags shows the important ones first and all of them, by subject, in --help-all.
package help

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
)

// helpIndent is the column at which descriptions begin.
const helpIndent = 26

// A command with more than manyFlags flags shows firstFlags in --help, and all of them in --help-all.
const manyFlags = 24

// firstFlags are the flags that most users need, of any command.
var firstFlags = []string{
	"model", "prompt", "file", "image", "system-prompt", "models-dir", "host", "port", "api-key", "output", "n-prompt", "n-gen", "repetitions", "chunks", "parallel",
	"n-predict", "ctx-size", "temp", "seed", "json-schema", "threads", "device", "vram-budget", "sparse", "verbose",
}

// helpAll is the flag that shows all flags of a command.
const helpAll = "help-all"

// Extend adds --help-all to a command with many flags.
func Extend(c *cli.Command) {
	if len(c.Flags) <= manyFlags {
		return
	}
	action := c.Action
	c.Flags = append(c.Flags, &cli.BoolFlag{Name: helpAll, Hidden: true, Usage: "show all flags, by subject"})
	c.Action = func(ctx context.Context, c *cli.Command) error {
		if c.Bool(helpAll) {
			write(c.Root().Writer, c, true)
			return nil
		}
		return action(ctx, c)
	}
}

// Print is cli's HelpPrinter: a command's usage and the flags that most users need, in lines that fit a terminal.
func Print(w io.Writer, _ string, data any) {
	if c, ok := data.(*cli.Command); ok {
		write(w, c, false)
	}
}

// write writes a command's help, with all flags or with those that most users need.
func write(w io.Writer, c *cli.Command, all bool) {
	out := bufio.NewWriter(w)
	defer out.Flush()
	screen.Wrap(out, strings.Fields(c.FullName()+": "+c.Usage), 0, 2)
	out.WriteString("\nUsage: " + c.FullName())
	if len(c.VisibleCommands()) > 0 {
		out.WriteString(" COMMAND")
	}
	list := c.VisibleFlags()
	if len(list) > 0 {
		out.WriteString(" [flags]")
	}
	if c.ArgsUsage != "" {
		out.WriteString(" " + c.ArgsUsage)
	}
	out.WriteString("\n")
	if c.Description != "" {
		out.WriteString("\n")
		paragraphs(out, c.Description)
	}
	if c.UsageText != "" {
		out.WriteString("\nExamples:\n")
		for line := range strings.Lines(strings.TrimSpace(c.UsageText)) {
			out.WriteString("  " + strings.TrimSpace(line) + "\n")
		}
	}
	purpose := ""
	for _, sub := range c.VisibleCommands() {
		if sub.Category != purpose {
			purpose = sub.Category
			out.WriteString("\n" + purpose + ":\n")
		}
		entry(out, sub.Name, sub.Usage)
	}
	switch {
	case len(list) == 0:
	case len(list) <= manyFlags:
		flagList(out, "Flags", list, true)
	case all:
		for _, subject := range flags.Subjects {
			title := subject
			if title == "" {
				title = "This command"
			}
			flagList(out, title, OfSubject(list, subject), true)
		}
	default:
		first := slices.DeleteFunc(slices.Clone(list), func(f cli.Flag) bool { return !slices.Contains(firstFlags, f.Names()[0]) })
		slices.SortStableFunc(first, func(a, b cli.Flag) int {
			return slices.Index(firstFlags, a.Names()[0]) - slices.Index(firstFlags, b.Names()[0])
		})
		flagList(out, "Flags", first, false)
		fmt.Fprintf(out, "\n%d more flags, by subject: %s --%s\n", len(list)-len(first), c.FullName(), helpAll)
	}
}

// OfSubject returns the flags of a subject.
func OfSubject(flags []cli.Flag, subject string) (list []cli.Flag) {
	for _, f := range flags {
		if f, ok := f.(cli.CategorizableFlag); ok && f.GetCategory() == subject {
			list = append(list, f.(cli.Flag))
		}
	}
	return list
}

// flagList prints flags under a title. full adds further spellings and environment variables.
func flagList(out *bufio.Writer, title string, flags []cli.Flag, full bool) {
	if len(flags) == 0 {
		return
	}
	out.WriteString("\n" + title + ":\n")
	for _, f := range flags {
		text := flagText(f)
		if full {
			text += spellings(f) + variables(f)
		}
		entry(out, flagNames(f), text)
	}
}

// paragraphs prints a text with its lines joined and wrapped. Lines that begin with a space stay as they are.
func paragraphs(out *bufio.Writer, text string) {
	var words []string
	flush := func() {
		if len(words) > 0 {
			screen.Wrap(out, words, 0, 0)
			words = nil
		}
	}
	for line := range strings.Lines(strings.TrimSpace(text)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == ' ' {
			flush()
			out.WriteString(line + "\n")
			continue
		}
		words = append(words, strings.Fields(line)...)
	}
	flush()
}

// entry prints a name and its description, wrapped and indented.
func entry(out *bufio.Writer, name, text string) {
	line := "  " + name
	if utf8.RuneCountInString(line) >= helpIndent {
		out.WriteString(line + "\n")
		line = ""
	}
	line += strings.Repeat(" ", helpIndent-utf8.RuneCountInString(line))
	out.WriteString(line)
	screen.Wrap(out, strings.Fields(text), helpIndent, helpIndent)
}

// flagNames is "-m, --model FILE": the first short name and the flag's own.
func flagNames(f cli.Flag) string {
	names := Dashed(f.Names()[0])
	if short := slices.IndexFunc(f.Names()[1:], isShort); short >= 0 && !isShort(f.Names()[0]) {
		names = Dashed(f.Names()[1+short]) + ", " + names
	}
	var parsed any = f
	if g, is := f.(*cli.GenericFlag); is { // its value is known only after parsing
		parsed = g.Value
	}
	alone, ok := parsed.(interface{ IsBoolFlag() bool })
	if d, is := f.(cli.DocGenerationFlag); is && d.TakesValue() && !(ok && alone.IsBoolFlag()) {
		names += " " + Placeholder(d)
	}
	return names
}

// spellings returns the names of a flag that flagNames leaves out, in parentheses; "" if there are none.
func spellings(f cli.Flag) string {
	var also []string
	shown := strings.FieldsFunc(flagNames(f), func(r rune) bool { return r == ' ' || r == ',' })
	for _, name := range f.Names() {
		if !slices.Contains(shown, Dashed(name)) {
			also = append(also, Dashed(name))
		}
	}
	if len(also) == 0 {
		return ""
	}
	return " (also " + strings.Join(also, ", ") + ")"
}

// variables returns the environment variables that a flag is read from, in brackets; "" if there are none.
func variables(f cli.Flag) string {
	if d, ok := f.(cli.DocGenerationFlag); ok && len(d.GetEnvVars()) > 0 {
		return " [$" + strings.Join(d.GetEnvVars(), ", $") + "]"
	}
	return ""
}

// isShort reports whether llama.cpp writes a flag's name with one dash.
func isShort(name string) bool { return len(name) <= 2 || slices.Contains(shortNames, name) }

var shortNames = []string{"hff", "hft", "hfd", "ctk", "ctv", "ngl", "nkvo", "ncmoe", "cmoe", "sys", "sysf", "mli", "cnv", "no-cnv", "dev", "devd", "ngld", "rea", "npp", "ntg", "npl", "pps", "tgs", "gan", "gaw"}

// Dashed returns a flag's name with the dashes that help shows.
func Dashed(name string) string {
	if isShort(name) {
		return "-" + name
	}
	return "--" + name
}

// Placeholder returns the word that the usage has in backquotes, else one for the type.
func Placeholder(d cli.DocGenerationFlag) string {
	if _, rest, ok := strings.Cut(d.GetUsage(), "`"); ok {
		word, _, _ := strings.Cut(rest, "`")
		return word
	}
	switch {
	case strings.HasPrefix(d.TypeName(), "int"), strings.HasPrefix(d.TypeName(), "uint"):
		return "N"
	case strings.HasPrefix(d.TypeName(), "float"):
		return "X"
	}
	return "TEXT"
}

// flagText returns the usage with the default, unless that is 0, which the usage explains if necessary.
func flagText(f cli.Flag) string {
	d, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return ""
	}
	text := strings.ReplaceAll(d.GetUsage(), "`", "")
	if v := strings.Trim(d.GetValue(), `"[]`); d.TakesValue() && v != "" && v != "0" {
		text += " (default: " + v + ")"
	}
	return text
}
