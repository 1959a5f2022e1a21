package main

import (
	"errors"

	"github.com/powerinfer-go/powerinfer/internal/measure"
)

// errNoCards is why cards finds none.
var errNoCards = errors.New("this build has no GPU device")

// cards are the graphics cards of this machine; the error says in a line why there are none.
func cards() ([]measure.Found, error) { return nil, errNoCards }
