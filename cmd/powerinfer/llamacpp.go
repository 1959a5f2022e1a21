package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
)

// A llamaFlag is a flag of llama.cpp's whose wish is granted anyway, so that commands written for it work unchanged.
type llamaFlag struct {
	names []string // the first one is told
	value bool     // it has a value
	why   string   // it changes nothing
}

// grantedFlags returns llama.cpp's flags that are taken with a note.
func grantedFlags() []llamaFlag {
	return []llamaFlag{
		{[]string{"flash-attn", "fa"}, true, "attention never keeps its scores in memory"},
		{[]string{"mmap"}, false, "--no-repack computes on the mapped file"},
		{[]string{"no-mmap"}, false, "weights are read into memory, but with --no-repack"},
		{[]string{"direct-io", "dio"}, false, "the file's pages are given back once they are read"},
		{[]string{"no-direct-io", "ndio"}, false, "files are mapped"},
		{[]string{"repack"}, false, "it is the default"},
		{[]string{"warmup"}, false, "nothing is gained by it here"},
		{[]string{"no-warmup"}, false, "there is none"},
		{[]string{"perf"}, false, "times are always told"},
		{[]string{"no-perf"}, false, "times take no time here"},
		{[]string{"kv-offload", "kvo"}, false, "the plan says where keys and values lie, or --no-kv-offload"},
		{[]string{"op-offload"}, false, "the plan says what is computed where"},
		{[]string{"check-tensors"}, false, "files are always checked"},
		{[]string{"no-context-shift"}, false, "it is the default"},
		{[]string{"jinja"}, false, "chat templates are always Jinja"},
		{[]string{"display-prompt"}, false, "it is the default"},
		{[]string{"escape", "e"}, false, "it is the default"},
		{[]string{"no-mmproj", "no-mmproj-auto"}, false, "projectors of images are never loaded"},
		{[]string{"prio"}, true, "priorities are the system's to give: nice powerinfer …"},
		{[]string{"poll"}, true, "workers wait for 100 µs before they sleep"},
		{[]string{"defrag-thold", "dt"}, true, "the KV cache is paged"},
		{[]string{"webui", "ui"}, false, "it is the default of serve"},
		{[]string{"cont-batching", "cb"}, false, "requests are always computed together"},
		{[]string{"kv-unified", "kvu"}, false, "sequences always share one KV cache"},
		{[]string{"cache-prompt"}, false, "it is the default"},
		{[]string{"slots"}, false, "it is the default of serve"},
		{[]string{"models-autoload"}, false, "it is the default of serve"},
		{[]string{"threads-http"}, true, "a request takes no thread of its own"},
		{[]string{"no-host"}, false, "buffers are the plan's to choose"},
		{[]string{"show-timings"}, false, "times are always told"},
		{[]string{"no-show-timings"}, false, "times go to standard error"},
		{[]string{"no-skip-chat-parsing", "prefill-assistant"}, false, "it is the default"},
		{[]string{"log-prefix", "no-log-prefix", "log-timestamps", "no-log-timestamps"}, false, "messages are one line each"},
		{[]string{"log-disable"}, false, "messages go to standard error"},
		{[]string{"log-colors"}, true, "messages have no colours"},
	}
}

// granted returns why a flag of llama.cpp's would change nothing, and whether it is one of grantedFlags.
func granted(name string) (why string, ok bool) {
	for _, f := range grantedFlags() {
		if slices.Contains(f.names, name) {
			return f.why, true
		}
	}
	return "", false
}

// grantedFlagsOf are grantedFlags as flags that help does not list.
func grantedFlagsOf() []cli.Flag {
	note := func(g llamaFlag) {
		fmt.Fprintf(os.Stderr, "note: --%s changes nothing here: %s\n", g.names[0], g.why)
	}
	var list []cli.Flag
	for _, g := range grantedFlags() {
		if g.value {
			list = append(list, &cli.StringFlag{
				Name: g.names[0], Aliases: g.names[1:], Hidden: true,
				Action: func(context.Context, *cli.Command, string) error { note(g); return nil },
			})
			continue
		}
		list = append(list, &cli.BoolFlag{
			Name: g.names[0], Aliases: g.names[1:], Hidden: true,
			Action: func(context.Context, *cli.Command, bool) error { note(g); return nil },
		})
	}
	return list
}

// withFlashAttention joins -fa with the value behind it, which llama.cpp lets be left out.
func withFlashAttention(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		if name := strings.TrimLeft(a, "-"); a != name && (name == "fa" || name == "flash-attn") {
			if i+1 < len(args) && slices.Contains([]string{"on", "off", "auto", "0", "1"}, args[i+1]) {
				i++
				a += "=" + args[i]
			} else {
				a += "=auto"
			}
		}
		out = append(out, a)
	}
	return out
}

// nearest returns the one of names that a slip of one or two letters made into name; "" where there is none.
func nearest(name string, names []string) string {
	most := 2
	if len(name) < 5 {
		most = 1
	}
	best := ""
	for _, n := range names {
		if len(n) < 3 {
			continue // nearly anything is near to it
		}
		if d := distance(name, n); d <= most {
			best, most = n, d-1
		}
	}
	return best
}

// distance returns the number of letters to insert, delete or replace to make a into b (Levenshtein), or to swap with
// their neighbours.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	rows := make([][]int, len(x)+1)
	for i := range rows {
		rows[i] = make([]int, len(y)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
				continue
			case x[i-1] == y[j-1]:
				rows[i][j] = rows[i-1][j-1]
				continue
			}
			rows[i][j] = 1 + min(rows[i-1][j], rows[i][j-1], rows[i-1][j-1])
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				rows[i][j] = min(rows[i][j], 1+rows[i-2][j-2])
			}
		}
	}
	return rows[len(x)][len(y)]
}
