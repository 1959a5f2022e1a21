package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// clientFlags say how long a server waits for its clients, and how much memory they may use.
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
	o.Timeout, o.Memory, o.Connections = time.Duration(seconds)*time.Second, int64(mib)<<20, connections(hw.OpenFiles())
	text := c.String("grace")
	var err error
	if o.Grace, err = time.ParseDuration(text); err != nil {
		var n int
		n, err = strconv.Atoi(text) // seconds, as --timeout takes them
		o.Grace = time.Duration(min(n, maxTimeout)) * time.Second
	}
	if err != nil || o.Grace <= 0 || o.Grace > maxGrace {
		return fmt.Errorf("--grace %q is not a time such as 10s or 1m", text)
	}
	return nil
}

// mostConnections bounds the open connections of clients; each takes some KiB.
const mostConnections = 1024

// connections returns how many clients' connections may be open if the process may open so many files: model files,
// downloads and the log need some, too. 0 files: no limit is known.
func connections(files int) int {
	if files == 0 {
		return mostConnections
	}
	return max(8, min(mostConnections, files*3/4))
}
