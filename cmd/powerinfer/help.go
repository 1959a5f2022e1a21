package main

import (
	"bufio"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v3"
)

// helpWidth is the longest line of help, in characters; helpIndent is where descriptions begin.
const (
	helpWidth  = 96
	helpIndent = 30
)

// printHelp is cli's HelpPrinter: a command's usage and every flag, in lines that fit a terminal.
func printHelp(w io.Writer, _ string, data any) {
	c, ok := data.(*cli.Command)
	if !ok {
		return
	}
	out := bufio.NewWriter(w)
	defer out.Flush()
	out.WriteString(c.FullName() + ": " + c.Usage + "\n\nUsage: " + c.FullName())
	if len(c.VisibleCommands()) > 0 {
		out.WriteString(" COMMAND")
	}
	if len(c.VisibleFlags()) > 0 {
		out.WriteString(" [flags]")
	}
	if c.ArgsUsage != "" {
		out.WriteString(" " + c.ArgsUsage)
	}
	out.WriteString("\n")
	if c.Description != "" {
		out.WriteString("\n" + strings.TrimSpace(c.Description) + "\n")
	}
	if commands := c.VisibleCommands(); len(commands) > 0 {
		out.WriteString("\nCommands:\n")
		for _, sub := range commands {
			entry(out, sub.Name, sub.Usage)
		}
	}
	if flags := c.VisibleFlags(); len(flags) > 0 {
		out.WriteString("\nFlags:\n")
		for _, f := range flags {
			entry(out, flagNames(f), flagText(f))
		}
	}
}

// entry prints a name and its description, wrapped and indented.
func entry(out *bufio.Writer, name, text string) {
	line := "  " + name
	if utf8.RuneCountInString(line) >= helpIndent {
		out.WriteString(line + "\n")
		line = ""
	}
	line += strings.Repeat(" ", helpIndent-utf8.RuneCountInString(line))
	width, fresh := utf8.RuneCountInString(line), true
	out.WriteString(line)
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case fresh:
		case width+1+n > helpWidth:
			out.WriteString("\n" + strings.Repeat(" ", helpIndent))
			width = helpIndent
		default:
			out.WriteString(" ")
			width++
		}
		out.WriteString(word)
		width += n
		fresh = false
	}
	out.WriteString("\n")
}

// flagNames is "-m, --model FILE": short names first.
func flagNames(f cli.Flag) string {
	var short, long []string
	for _, name := range f.Names() {
		if isShort(name) {
			short = append(short, dashed(name))
		} else {
			long = append(long, dashed(name))
		}
	}
	names := strings.Join(append(short, long...), ", ")
	var parsed any = f
	if g, is := f.(*cli.GenericFlag); is { // which knows its value only when it was parsed
		parsed = g.Value
	}
	alone, ok := parsed.(interface{ IsBoolFlag() bool })
	if d, is := f.(cli.DocGenerationFlag); is && d.TakesValue() && !(ok && alone.IsBoolFlag()) {
		names += " " + placeholder(d)
	}
	return names
}

// isShort reports whether llama.cpp writes a flag's name with one dash.
func isShort(name string) bool { return len(name) <= 2 }

func dashed(name string) string {
	if isShort(name) {
		return "-" + name
	}
	return "--" + name
}

// placeholder returns the word that the usage has in backquotes, else one for the type.
func placeholder(d cli.DocGenerationFlag) string {
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

// flagText returns the usage with default and environment variable. A default of 0 is what the usage explains, or
// nothing.
func flagText(f cli.Flag) string {
	d, ok := f.(cli.DocGenerationFlag)
	if !ok {
		return ""
	}
	text := strings.ReplaceAll(d.GetUsage(), "`", "")
	if v := strings.Trim(d.GetValue(), `"[]`); d.TakesValue() && v != "" && v != "0" {
		text += " (default: " + v + ")"
	}
	if vars := d.GetEnvVars(); len(vars) > 0 {
		text += " [$" + strings.Join(vars, ", $") + "]"
	}
	return text
}
