package flags

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v3"
)

// Variable is an environment variable that sets a flag. An empty one counts as unset.
type Variable string

// Env returns the flag's llama.cpp variable, and older or other names for it.
func Env(names ...string) cli.ValueSourceChain {
	var chain cli.ValueSourceChain
	for _, n := range names {
		chain.Chain = append(chain.Chain, Variable("LLAMA_ARG_"+n))
	}
	return chain
}

// Lookup returns the value; llama.cpp's words for true and false become Go's.
func (v Variable) Lookup() (string, bool) {
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
func (v Variable) IsFromEnv() bool { return true }

// Key returns the variable's name.
func (v Variable) Key() string { return string(v) }

func (v Variable) String() string { return fmt.Sprintf("environment variable %q", string(v)) }

// GoString is for cli's traces.
func (v Variable) GoString() string { return fmt.Sprintf("variable(%q)", string(v)) }
