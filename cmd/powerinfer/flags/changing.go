package flags

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer"
	"github.com/powerinfer-go/powerinfer/internal/sample"
)

// Changing gives access to the flags of sampling and of a text's length, which a conversation may change.
type Changing struct{ command *cli.Command }

// NewChanging returns a command's Changing.
func NewChanging(c *cli.Command) Changing { return Changing{c} }

func changing() []cli.Flag { return append(Sampling(), Length()) }

// Names returns the flags' names, without aliases.
func (s Changing) Names() (names []string) {
	for _, f := range changing() {
		names = append(names, f.Names()[0])
	}
	return names
}

// AllNames returns the flags' names and their aliases.
func (s Changing) AllNames() (names []string) {
	for _, f := range changing() {
		names = append(names, f.Names()...)
	}
	return names
}

// IgnoresEnd reports whether generation continues after the end of the text.
func (s Changing) IgnoresEnd() bool { return s.command.Bool("ignore-eos") }

// MostTokens returns the limit on a text's tokens as in powerinfer.Generation.Max, and whether it was given.
func (s Changing) MostTokens() (n int, given bool) {
	return MostTokens(s.command.Int("n-predict")), s.command.IsSet("n-predict")
}

// Given returns the value of the flag of that name.
func (s Changing) Given(name string) any { return s.command.Value(name) }

// Value returns the value of the flag of that name, one of Names. Settings of sampling come from now, because the
// model's file may advise them.
func (s Changing) Value(name string, now *powerinfer.Sampling) any {
	if n, ok := sample.NumberBy(name); ok {
		return reflect.ValueOf(n.Of(now)).Elem()
	}
	if name == "samplers" {
		return strings.Join(now.Samplers, ";")
	}
	return s.command.Value(name)
}

// Set sets the flag of that name, one of AllNames, and returns m's new sampling. After an error the flag has its former
// Value again, unless it collects values.
func (s Changing) Set(name, value string, now *powerinfer.Sampling, m *powerinfer.Model) (chosen powerinfer.Sampling, err error) {
	of := slices.IndexFunc(changing(), func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	before := fmt.Sprint(s.Value(s.Names()[of], now))
	if err = s.command.Set(name, value); err == nil {
		err = CheckGeneration(s.command)
	}
	if err == nil {
		chosen, err = ReadSampling(s.command, m)
	}
	if _, list := s.command.Value(name).([]string); err != nil && !list {
		err = errors.Join(err, s.command.Set(name, before))
	}
	return chosen, err
}
