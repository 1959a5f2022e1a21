// Package rounds times engines side by side: every round runs each of them once, in turn, and every other round in the
// opposite order, so that the drift of a machine affects all alike. It reports medians and ranges, ratios within rounds,
// and the share of the read bandwidth that generation used. Engines are programs with llama-bench's flags and JSON.
package rounds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Engine is a command that understands llama-bench's flags.
type Engine struct {
	Name string
	Args []string
}

// Peers reads engines from a list of NAME=COMMAND, each COMMAND the absolute path of a program and its arguments.
func Peers(list []string) ([]Engine, error) {
	var peers []Engine
	for _, p := range list {
		at := -1
		for i := range p {
			if p[i] == '=' && filepath.IsAbs(p[i+1:]) {
				at = i
				break
			}
		}
		if at < 1 {
			return nil, fmt.Errorf("--peer %q is not NAME=/PATH ARGUMENTS", p)
		}
		peers = append(peers, Engine{Name: p[:at], Args: strings.Fields(p[at+1:])})
	}
	return peers, nil
}

// Old is the name of an engine that is an older binary of ours, see Results.Slower.
const Old = "old"

// Rounds describes the tests and the engines to time.
type Rounds struct {
	Name    string   // the model's name, for progress
	Model   string   // GGUF file
	Engines []Engine // the first is ours
	Threads []int
	Prompt  string // tokens of prompts, as -p takes them; 0: none
	Gen     string // tokens to generate, as -n takes them; 0: none
	Depth   string // positions before them, as -d takes them; empty: none, for engines without -d
	Count   int
	Apart   bool                             // an engine makes one test before it is another's turn: pairs see the machine in one state only if they are short
	Say     func(format string, args ...any) // reports the present work

	// ReadBandwidth returns the bytes per second that this many threads read from memory; nil: it is not measured.
	ReadBandwidth func(threads int) (float64, error)
}

// Run runs all engines in turn, and measures the read bandwidth between.
func (r *Rounds) Run(ctx context.Context) (Results, Bandwidths, error) {
	got, read := Results{}, Bandwidths{}
	for round := range r.Count {
		say := func(what string) { r.Say("%s round %d/%d: %s", r.Name, round+1, r.Count, what) }
		if r.ReadBandwidth != nil {
			say("read bandwidth")
			if err := read.measure(ctx, r.Threads, r.ReadBandwidth); err != nil {
				return nil, nil, err
			}
		}
		turns := slices.Clone(r.Engines)
		if round%2 == 1 {
			slices.Reverse(turns)
		}
		for _, tests := range r.visits() {
			for _, e := range turns {
				say(e.Name + " " + strings.Join(tests, " "))
				out, err := e.run(ctx, append([]string{"-m", r.Model, "-r", "1", "-o", "json"}, tests...)...)
				if err != nil {
					return nil, nil, err
				}
				if err := got.add(e.Name, out); err != nil {
					return nil, nil, fmt.Errorf("%s: %w", e.Name, err)
				}
			}
		}
	}
	return got, read, nil
}

// visits returns the flags of the tests of each turn: all tests, because loading takes long, or one where tests are
// apart.
func (r *Rounds) visits() [][]string {
	var depth []string
	if r.Depth != "" {
		depth = []string{"-d", r.Depth}
	}
	threads := make([]string, len(r.Threads))
	for i, n := range r.Threads {
		threads[i] = strconv.Itoa(n)
	}
	if !r.Apart {
		return [][]string{append([]string{"-p", r.Prompt, "-n", r.Gen, "-t", strings.Join(threads, ",")}, depth...)}
	}
	var list [][]string
	for _, t := range threads {
		if r.Prompt != "0" {
			list = append(list, append([]string{"-p", r.Prompt, "-n", "0", "-t", t}, depth...))
		}
		if r.Gen != "0" {
			list = append(list, append([]string{"-p", "0", "-n", r.Gen, "-t", t}, depth...))
		}
	}
	return list
}

// run returns the engine's standard output.
func (e Engine) run(ctx context.Context, args ...string) ([]byte, error) {
	out, err := exec.CommandContext(ctx, e.Args[0], append(slices.Clone(e.Args[1:]), args...)...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Name, err)
	}
	return out, nil
}
