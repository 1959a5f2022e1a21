package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/serving"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// listenFlags set the server's address and protocol.
func listenFlags() []cli.Flag {
	return flags.About(flags.NetworkSubject, []cli.Flag{
		&cli.StringFlag{Name: "host", Value: "127.0.0.1", Usage: "`ADDRESS` to listen on; 0.0.0.0: every network; one that ends with .sock is a socket in the file system", Sources: flags.Env("HOST")},
		&cli.IntFlag{Name: "port", Value: 8080, Usage: "port to listen on; 0: any free one", Sources: flags.Env("PORT")},
		&cli.StringSliceFlag{Name: "allowed-hosts", Aliases: []string{"allowed-host"}, Usage: "without a key, answer requests to the name `HOST`, too, such as chat.example.org or *.example.org, or several with commas; * is all; may be repeated; IP addresses, localhost and this machine's name are always answered", Sources: flags.Env("ALLOWED_HOSTS")},
		&cli.StringFlag{Name: "ssl-cert-file", Usage: "PEM `FILE` of a certificate, for HTTPS; it is read again when it changes", Sources: flags.Env("SSL_CERT_FILE")},
		&cli.StringFlag{Name: "ssl-key-file", Usage: "PEM `FILE` of the certificate's key", Sources: flags.Env("SSL_KEY_FILE")},
	})
}

// address returns the server's address according to the flags.
func address(c *cli.Command) serving.Address {
	return serving.Address{Host: c.String("host"), Port: c.Int("port"), TLS: c.IsSet("ssl-cert-file")}
}

// secure sets up TLS if the flags ask for it.
func secure(c *cli.Command, o *server.Options) error {
	cert, key := c.String("ssl-cert-file"), c.String("ssl-key-file")
	if cert == "" && key == "" {
		return nil
	}
	if cert == "" || key == "" {
		return errors.New("--ssl-cert-file and --ssl-key-file belong together; give both")
	}
	var err error
	o.TLS, err = server.TLSConfig(cert, key, o.Log)
	return err
}

// clientFlags limit how long a server waits for clients, and their memory.
func clientFlags() []cli.Flag {
	return flags.About(flags.NetworkSubject, []cli.Flag{
		&cli.IntFlag{Name: "timeout", Aliases: []string{"to"}, Value: 30, Usage: "disconnect a client that for `SECONDS` sends nothing of its request, or reads nothing of its answer; time in which the model computes does not count", Sources: flags.Env("TIMEOUT")},
		&cli.StringFlag{Name: "grace", Value: "30s", Usage: "end within `TIME` after Ctrl-C or SIGTERM, such as 10s or 1m, whatever clients do; running requests may finish until shortly before"},
		&cli.IntFlag{Name: "request-memory", Value: 1024, Usage: "`MIB` of memory for all requests together, besides the model; one client may use half of it; a request that finds no room waits 10 seconds and is then told to try again later"},
	})
}

// Bounds of clientFlags.
const (
	maxTimeout       = 1 << 20 // seconds
	maxGrace         = 24 * time.Hour
	leastMemory      = 16      // MiB
	maxRequestMemory = 1 << 24 // MiB
)

// clientBounds reads clientFlags.
func clientBounds(c *cli.Command, o *server.Options) error {
	seconds, mib := c.Int("timeout"), c.Int("request-memory")
	if seconds < 1 || seconds > maxTimeout {
		return fmt.Errorf("--timeout %d is not a number of seconds from 1 to %d", seconds, maxTimeout)
	}
	if mib < leastMemory || mib > maxRequestMemory {
		return fmt.Errorf("--request-memory %d is not a number of MiB from %d to %d", mib, leastMemory, maxRequestMemory)
	}
	o.Timeout, o.Memory, o.Connections = time.Duration(seconds)*time.Second, int64(mib)<<20, serving.Connections(hw.OpenFiles())
	text := c.String("grace")
	var err error
	if o.Grace, err = time.ParseDuration(text); err != nil {
		var n int
		n, err = strconv.Atoi(text) // in seconds, like --timeout
		o.Grace = time.Duration(min(n, maxTimeout)) * time.Second
	}
	if err != nil || o.Grace <= 0 || o.Grace > maxGrace {
		return fmt.Errorf("--grace %q is not a time such as 10s or 1m", text)
	}
	return nil
}

// libraryFlags returns the flags of a server with several models.
func libraryFlags() []cli.Flag {
	return flags.About(flags.ModelSubject, []cli.Flag{
		&cli.StringFlag{Name: "models-dir", Usage: "serve the models in this `FOLDER` and those that pull fetched, each loaded when a request names it", Sources: flags.Env("MODELS_DIR")},
		&cli.IntFlag{Name: "models-max", Usage: "models of --models-dir that are loaded at a time, also without that flag those that pull fetched; 0: as many as fit into memory", Sources: flags.Env("MODELS_MAX")},
		&cli.BoolFlag{Name: "no-models-autoload", Usage: "have only POST /models/load load models of --models-dir, not requests that name them"},
		&cli.DurationFlag{Name: "keep-alive", Value: 5 * time.Minute, Usage: "how long a model of --models-dir stays loaded after its last request, such as 30s or 1h; negative: until its memory is needed"},
	})
}

// logFlags set the content and place of a server's log.
func logFlags() []cli.Flag {
	return flags.About(flags.LogSubject, []cli.Flag{
		&cli.StringFlag{Name: "log-format", Value: "text", Usage: "`FORM` of the log's lines: text or json"},
		&cli.StringFlag{Name: "log-file", Usage: "append the log to `FILE` instead of writing it to standard error", Sources: flags.Env("LOG_FILE")},
		&cli.IntFlag{Name: "log-verbosity", Aliases: []string{"lv", "verbosity"}, Value: 3, Usage: "1: errors, 2: warnings, 3: requests, too, 4 and more: everything", Sources: flags.Env("LOG_VERBOSITY")},
		&cli.BoolFlag{Name: "log-prompts", Usage: "write prompts and answers into the log"},
	})
}

// openLog returns the log of the flags. The caller calls closeLog after the last entry.
func openLog(c *cli.Command) (log *slog.Logger, closeLog func() error, err error) {
	return serving.Log{Format: c.String("log-format"), File: c.String("log-file"), Verbosity: c.Int("log-verbosity")}.Open()
}
