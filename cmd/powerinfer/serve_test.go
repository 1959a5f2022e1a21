package main

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v3"
)

// serveFlags runs f with the flags of serve set to args.
func serveFlags(t *testing.T, f func(ctx context.Context, c *cli.Command) error, args ...string) error {
	t.Helper()
	c := serveCommand()
	c.Action = f
	return c.Run(t.Context(), append([]string{"serve"}, args...))
}

// TestSocket: the server listens on a socket in the file system. It replaces the socket of a killed server, but not
// that of a running one.
func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.sock")
	if err := serveFlags(t, func(ctx context.Context, c *cli.Command) error {
		l, url, err := address(c).Listen(ctx)
		if err != nil {
			return err
		}
		if url != "unix:"+path {
			t.Errorf("the socket is told as %q", url)
		}
		if _, _, err := address(c).Listen(ctx); err == nil || !strings.Contains(err.Error(), "another program listens") {
			t.Errorf("a socket in use: %v", err)
		}
		go http.Serve(l, http.NotFoundHandler())
		d := net.Dialer{}
		client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", path)
		}}}
		res, err := client.Get("http://x/")
		if err != nil {
			return err
		}
		res.Body.Close()
		client.CloseIdleConnections()
		l.(*net.UnixListener).SetUnlinkOnClose(false) // as if the server was killed
		l.Close()
		again, _, err := address(c).Listen(ctx)
		if err != nil {
			return err
		}
		return again.Close()
	}, "--host", path); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("not a socket"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := serveFlags(t, func(ctx context.Context, c *cli.Command) error {
		_, _, err := address(c).Listen(ctx)
		return err
	}, "--host", path)
	if text, readErr := os.ReadFile(path); err == nil || readErr != nil || string(text) != "not a socket" {
		t.Errorf("a file in the socket's place: %v, %v", err, readErr)
	}
}

// TestLog: flags set the log's format, place and verbosity.
func TestLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if err := serveFlags(t, func(_ context.Context, c *cli.Command) error {
		log, closeLog, err := openLog(c)
		if err != nil {
			return err
		}
		log.Info("quiet")
		log.Warn("loud", "took", time.Second)
		return closeLog()
	}, "--log-file", file, "--log-format", "json", "-lv", "2"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(text), "quiet") || !strings.Contains(string(text), `"level":"WARN","msg":"loud","took":1000000000}`) {
		t.Errorf("the log is %q: %v", text, err)
	}
	if err := serveFlags(t, func(_ context.Context, c *cli.Command) error {
		_, _, err := openLog(c)
		return err
	}, "--log-format", "xml"); err == nil || !strings.Contains(err.Error(), "neither text nor json") {
		t.Errorf("an unknown form: %v", err)
	}
}
