package main

import (
	"errors"

	"golang.org/x/sys/windows"
)

// readerLeft reports whether err comes of a pipe that nobody reads any more.
func readerLeft(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA) || errors.Is(err, windows.ERROR_PIPE_NOT_CONNECTED)
}
