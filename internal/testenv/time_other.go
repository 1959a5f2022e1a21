//go:build !unix

package testenv

import (
	"testing"
	"time"
)

var began = time.Now()

// ProcessorTime returns the time that the process has run: what it computed itself is not known here.
func ProcessorTime(testing.TB) time.Duration { return time.Since(began) }
