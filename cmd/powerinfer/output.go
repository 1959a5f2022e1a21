package main

import (
	"os"

	"github.com/powerinfer-go/powerinfer/internal/terminal"
)

// stdout and stderr are the only outputs that commands write to, so that foreign text never commands a terminal.
// TestOneWriter checks that no other code uses the files.
var stdout, stderr = terminal.Of(os.Stdout), terminal.Of(os.Stderr)
