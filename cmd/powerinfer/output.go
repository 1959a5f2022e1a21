package main

import (
	"os"

	"github.com/powerinfer-go/powerinfer/internal/terminal"
)

// stdout and stderr are all that commands write to, so that nothing foreign commands a terminal. TestOneWriter holds
// that no other code names the files.
var stdout, stderr = terminal.Of(os.Stdout), terminal.Of(os.Stderr)
