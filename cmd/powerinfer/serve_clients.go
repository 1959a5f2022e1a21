package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// clientFlags say how long a server waits for its clients, and what they may take of it.
func clientFlags() []cli.Flag {
	return about(networkSubject, []cli.Flag{
		&cli.IntFlag{Name: "timeout", Aliases: []string{"to"}, Value: 30, Usage: "disconnect a client that for `SECONDS` sends nothing of its request, or takes nothing of its answer; while the model computes nothing is asked of it", Sources: env("TIMEOUT")},
		&cli.StringFlag{Name: "grace", Value: "30s", Usage: "`TIME` after Ctrl-C or SIGTERM in which the server ends, whatever clients do, such as 10s or 1m; requests that run may end meanwhile"},
		&cli.IntFlag{Name: "request-memory", Value: 1024, Usage: "`MIB` of memory that all requests together may take besides the model, and one client the half; further ones wait 10 seconds, then they are told to try again later"},
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
		return fmt.Errorf("--timeout %d is not a number of seconds", seconds)
	}
	if mib < leastMemory || mib > maxRequestMemory {
		return fmt.Errorf("--request-memory %d is not a number of MiB from %d on", mib, leastMemory)
	}
	o.Timeout, o.Memory, o.Connections = time.Duration(seconds)*time.Second, int64(mib)<<20, connections(hw.OpenFiles())
	text := c.String("grace")
	var err error
	if o.Grace, err = time.ParseDuration(text); err != nil {
		var n int
		n, err = strconv.Atoi(text) // seconds, as of --timeout
		o.Grace = time.Duration(min(n, maxTimeout)) * time.Second
	}
	if err != nil || o.Grace <= 0 || o.Grace > maxGrace {
		return fmt.Errorf("--grace %q is not a time such as 10s or 1m", text)
	}
	return nil
}

// mostConnections is how many clients' connections a server has open; each takes some KiB.
const mostConnections = 1024

// connections returns how many of a process's open files may be clients' connections: models' files, downloads and the
// log need some, too.
func connections(files int) int {
	if files == 0 {
		return mostConnections
	}
	return max(8, min(mostConnections, files*3/4))
}
