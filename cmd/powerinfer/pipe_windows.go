package main

import (
	"errors"

	"golang.org/x/sys/windows"
)

// readerLeft reports whether err is the error of a pipe that its reader has closed.
func readerLeft(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA) || errors.Is(err, windows.ERROR_PIPE_NOT_CONNECTED)
}
