package main

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v3"
)

// variable is an environment variable that a flag is read from. One that is set to nothing is not set.
type variable string

// env returns the flag's llama.cpp variable, and older or other names for it.
func env(names ...string) cli.ValueSourceChain {
	var chain cli.ValueSourceChain
	for _, n := range names {
		chain.Chain = append(chain.Chain, variable("LLAMA_ARG_"+n))
	}
	return chain
}

// Lookup returns the value; llama.cpp's words for true and false become Go's.
func (v variable) Lookup() (string, bool) {
	s := os.Getenv(string(v))
	switch s {
	case "on", "enabled":
		s = "true"
	case "off", "disabled":
		s = "false"
	}
	return s, s != ""
}

// IsFromEnv and Key are cli.EnvValueSource, which help reads.
func (v variable) IsFromEnv() bool { return true }

// Key returns the variable's name.
func (v variable) Key() string { return string(v) }

func (v variable) String() string { return fmt.Sprintf("environment variable %q", string(v)) }

// GoString is for cli's traces.
func (v variable) GoString() string { return fmt.Sprintf("variable(%q)", string(v)) }
