// Package serving holds the parts of `powerinfer serve` other than its flags: a server with all routes, its listener,
// its log, and a model that sleeps.
package serving

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
	"github.com/powerinfer-go/powerinfer/internal/atomicfile"
	"github.com/powerinfer-go/powerinfer/internal/terminal"
)

// Log sets the content and the place of a server's log.
type Log struct {
	Format    string // format of its lines: text or json
	File      string // the file to append to; empty: standard error
	Verbosity int    // llama.cpp's: 1 errors, 2 also warnings, 3 also requests, 4 and more everything
}

// Open returns the log. The caller calls closeLog after the last entry.
func (l Log) Open() (log *slog.Logger, closeLog func() error, err error) {
	var to io.Writer = screen.Err
	closeLog = func() error { return nil }
	if l.Format != "text" && l.Format != "json" {
		return nil, nil, fmt.Errorf("--log-format %q is neither text nor json", l.Format)
	}
	if l.File != "" {
		if noText(l.File) {
			return nil, nil, fmt.Errorf("--log-file: %s is no text, to which a log is added; name another file", l.File)
		}
		f, err := os.OpenFile(l.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, fmt.Errorf("--log-file: %w", err)
		}
		to, closeLog = terminal.Of(f), f.Close
	}
	o := &slog.HandlerOptions{Level: logLevel(l.Verbosity)}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(to, o)), closeLog, nil
	}
	return slog.New(slog.NewTextHandler(to, o)), closeLog, nil
}

// noText reports whether path is a regular file that is not text, such as a model.
func noText(path string) bool {
	info, err := os.Stat(path) // before opening, because that would wait for a pipe's writer
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
