package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/terminal"
)

// logFlags say what a server's log has and where it goes.
func logFlags() []cli.Flag {
	return flags.About(flags.LogSubject, []cli.Flag{
		&cli.StringFlag{Name: "log-format", Value: "text", Usage: "`FORM` of the log's lines: text or json"},
		&cli.StringFlag{Name: "log-file", Usage: "append the log to `FILE` instead of writing it to standard error", Sources: flags.Env("LOG_FILE")},
		&cli.IntFlag{Name: "log-verbosity", Aliases: []string{"lv", "verbosity"}, Value: 3, Usage: "1: errors, 2: warnings, 3: requests, too, 4 and more: everything", Sources: flags.Env("LOG_VERBOSITY")},
		&cli.BoolFlag{Name: "log-prompts", Usage: "write prompts and answers into the log"},
	})
}

// openLog returns the log that the flags ask for. close is to be called when nothing is logged any more.
func openLog(c *cli.Command) (log *slog.Logger, closeLog func() error, err error) {
	var to io.Writer = screen.Err
	closeLog = func() error { return nil }
	format := c.String("log-format")
	if format != "text" && format != "json" {
		return nil, nil, fmt.Errorf("--log-format %q is neither text nor json", format)
	}
	if c.IsSet("log-file") {
		if noText(c.String("log-file")) {
			return nil, nil, fmt.Errorf("--log-file: %s is no text, to which a log is added; name another file", c.String("log-file"))
		}
		f, err := os.OpenFile(c.String("log-file"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, fmt.Errorf("--log-file: %w", err)
		}
		to, closeLog = terminal.Of(f), f.Close
	}
	o := &slog.HandlerOptions{Level: logLevel(c.Int("log-verbosity"))}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(to, o)), closeLog, nil
	}
	return slog.New(slog.NewTextHandler(to, o)), closeLog, nil
}

// noText reports whether path is a regular file that is not text, such as a model.
func noText(path string) bool {
	info, err := os.Stat(path) // before opening, which would wait for a pipe's writer
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head, _ := io.ReadAll(io.LimitReader(f, atomicfile.Head))
	return bytes.IndexByte(head, 0) >= 0
}

// logLevel returns the level of llama.cpp's verbosity.
func logLevel(verbosity int) slog.Level {
	switch {
	case verbosity <= 1:
		return slog.LevelError
	case verbosity == 2:
		return slog.LevelWarn
	case verbosity == 3:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}
