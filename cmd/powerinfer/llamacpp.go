package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/screen"
)

// llamaFlag is a flag of llama.cpp with no effect here. It is accepted so that commands written for llama.cpp work
// unchanged.
type llamaFlag struct {
	names []string
	value bool   // the flag takes a value
	why   string // why it has no effect
}

// grantedFlags returns the flags of llama.cpp that are accepted with a note: they ask for what always holds here, or
// for a matter of speed that is decided in another way.
func grantedFlags() []llamaFlag {
	const (
		taskset     = "start it with taskset to bind it to cores"
		nice        = "priorities are the system's to give: nice powerinfer …"
		draft       = "a draft model takes the model's own settings"
		lookup      = "how many tokens are guessed is measured; --spec-draft-n-max N bounds it"
		videos      = "only text and pictures are read"
		divide      = "the plan divides a model between GPUs; --vram-budget 8,11 bounds each"
		fit         = "the plan always fits the model to the memory"
		checkpoints = "what the KV cache lacks is evaluated again"
		slots       = "what was computed stays until its room is needed"
		lines       = "messages are one line each"
		web         = "the page keeps its settings in the browser"
	)
	return []llamaFlag{
		{[]string{"flash-attn", "fa"}, true, "attention never keeps its scores in memory"},
		{[]string{"mmap"}, false, "--no-repack computes on the mapped file"},
		{[]string{"no-mmap"}, false, "weights are read into memory, but with --no-repack"},
		{[]string{"direct-io", "dio"}, false, "the file's pages are given back once they are read"},
		{[]string{"no-direct-io", "ndio"}, false, "files are mapped"},
		{[]string{"load-mode", "lm", "lazy-mode", "lzm"}, true, "--no-repack computes on the mapped file, --mlock keeps weights out of swap"},
		{[]string{"repack"}, false, "it is the default"},
		{[]string{"warmup"}, false, "nothing is gained by it here"},
		{[]string{"no-warmup"}, false, "there is none"},
		{[]string{"perf"}, false, "times are always told"},
		{[]string{"no-perf"}, false, "times take no time here"},
		{[]string{"kv-offload", "kvo"}, false, "the plan says where keys and values lie, or --no-kv-offload"},
		{[]string{"op-offload"}, false, "the plan says what is computed where"},
		{[]string{"no-op-offload", "nopo"}, false, "--stream-tokens 0 computes where the weights lie"},
		{[]string{"split-mode", "sm", "tensor-split", "ts", "main-gpu", "mg"}, true, divide},
		{[]string{"fit", "fit-target", "fitt", "fit-ctx", "fitc"}, true, fit},
		{[]string{"check-tensors"}, false, "files are always checked"},
		{[]string{"no-context-shift"}, false, "it is the default"},
		{[]string{"jinja"}, false, "chat templates are always Jinja"},
		{[]string{"no-jinja"}, false, "chat templates are always Jinja; --chat-template NAME chooses another"},
		{[]string{"display-prompt"}, false, "it is the default"},
		{[]string{"verbose-prompt"}, false, "powerinfer tokenize shows a prompt's tokens"},
		{[]string{"escape", "e"}, false, "it is the default"},
		{[]string{"mmproj-auto"}, false, "it is the default of run, chat and serve"},
		{[]string{"mmproj-offload"}, false, "it is the default"},
		{[]string{"mmproj-device", "mmdev"}, true, "pictures are computed on the first of the model's GPUs that has room"},
		{[]string{"mtmd-batch-max-tokens"}, true, "one picture is computed at a time"},
		{[]string{"video-fps", "video-timestamp-interval", "video-ffmpeg-dir"}, true, videos},
		{[]string{"media-path"}, true, "no file is read for a request"},
		{[]string{"prio", "prio-batch"}, true, nice},
		{[]string{"poll", "poll-batch"}, true, "workers wait for 100 µs before they sleep"},
		{[]string{"cpu-mask", "C", "cpu-range", "Cr", "cpu-strict", "cpu-mask-batch", "Cb", "cpu-range-batch", "Crb", "cpu-strict-batch"}, true, taskset},
		{[]string{"numa"}, true, "start it with numactl"},
		{[]string{"defrag-thold", "dt"}, true, "the KV cache is paged"},
		{[]string{"ctx-checkpoints", "ctxcp", "swa-checkpoints", "checkpoint-min-step", "cms"}, true, checkpoints},
		{[]string{"cache-ram", "cram"}, true, "-c sets how many tokens of all conversations are kept"},
		{[]string{"cache-idle-slots"}, false, slots},
		{[]string{"no-cache-idle-slots"}, false, slots},
		{[]string{"cache-reuse"}, true, "equal beginnings of prompts are always shared"},
		{[]string{"slot-prompt-similarity", "sps"}, true, "every request uses the longest beginning that is there"},
		{[]string{"webui", "ui"}, false, "it is the default of serve"},
		{[]string{"ui-config", "webui-config", "ui-config-file", "webui-config-file"}, true, web},
		{[]string{"no-ui-mcp-proxy", "no-webui-mcp-proxy", "no-agent", "no-ag"}, false, "it is the default"},
		{[]string{"kv-unified", "kvu", "no-kv-unified", "no-kvu"}, false, "sequences share one KV cache"},
		{[]string{"cors-methods", "cors-headers"}, true, "origins that may ask may ask with all methods and headers"},
		{[]string{"cors-credentials", "no-cors-credentials"}, false, "there are no cookies: a page that may ask needs the key where there is one"},
		{[]string{"n-cpu-ffn", "ncffn"}, true, "the plan says what lies where"},
		{[]string{"log-verbose"}, false, "--verbose says how the model is computed"},
		{[]string{"log-jsonl"}, false, "--log-format json of powerinfer serve writes lines of JSON"},
		{[]string{"tools", "tools-runtime"}, true, "the server runs no tools: clients run those that they give"},
		{[]string{"cont-batching", "cb"}, false, "requests are always computed together"},
		{[]string{"no-cont-batching", "nocb"}, false, "requests are computed together; --parallel 1 computes one after the other"},
		{[]string{"cache-prompt"}, false, "it is the default"},
		{[]string{"slots"}, false, "it is the default of serve"},
		{[]string{"props"}, false, "flags of powerinfer serve set what POST /props would"},
		{[]string{"models-autoload"}, false, "it is the default of serve"},
		{[]string{"threads-http"}, true, "a request takes no thread of its own"},
		{[]string{"sse-ping-interval"}, true, "streams are kept open by a comment every 15 seconds"},
		{[]string{"reuse-port"}, false, "one process answers all requests"},
		{[]string{"no-host"}, false, "buffers are the plan's to choose"},
		{[]string{"backend-sampling", "backend_sampling", "bs", "spec-draft-backend-sampling", "no-spec-draft-backend-sampling"}, false, "tokens are chosen on the processor"},
		{[]string{"show-timings"}, false, "times are always told"},
		{[]string{"no-show-timings"}, false, "times go to standard error"},
		{[]string{"color", "co"}, true, "set NO_COLOR for plain text; on a terminal powerinfer chat is coloured"},
		{[]string{"print-token-count", "ptc"}, true, "the last line says how many tokens were generated"},
		{[]string{"no-skip-chat-parsing", "prefill-assistant", "no-reasoning-preserve"}, false, "it is the default"},
		{[]string{"log-prefix", "no-log-prefix", "log-timestamps", "no-log-timestamps", "no-log-jsonl"}, false, lines},
		{[]string{"log-disable"}, false, "messages go to standard error"},
		{[]string{"log-colors"}, true, "messages have no colours"},
		{[]string{"lookup-cache-static", "lcs", "lookup-cache-dynamic", "lcd"}, true, lookup},
		{[]string{
			"spec-draft-threads", "td", "threads-draft", "spec-draft-threads-batch", "tbd", "threads-batch-draft",
			"spec-draft-cpu-mask", "Cd", "cpu-mask-draft", "spec-draft-cpu-range", "Crd", "cpu-range-draft", "spec-draft-cpu-strict", "cpu-strict-draft",
			"spec-draft-prio", "prio-draft", "spec-draft-poll", "poll-draft", "spec-draft-cpu-mask-batch", "Cbd", "cpu-mask-batch-draft",
			"spec-draft-cpu-range-batch", "Crbd", "cpu-range-batch-draft", "spec-draft-cpu-strict-batch", "cpu-strict-batch-draft",
			"spec-draft-prio-batch", "prio-batch-draft", "spec-draft-poll-batch", "poll-batch-draft", "spec-draft-type-k", "ctkd", "cache-type-k-draft",
			"spec-draft-type-v", "ctvd", "cache-type-v-draft", "spec-draft-override-tensor", "otd", "override-tensor-draft",
			"spec-draft-n-cpu-moe", "spec-draft-ncmoe", "ncmoed", "n-cpu-moe-draft",
		}, true, draft},
		{[]string{"spec-draft-cpu-moe", "cmoed", "cpu-moe-draft"}, false, draft},
		{[]string{
			"spec-draft-p-split", "draft-p-split", "draft-min", "draft-n-min", "spec-draft-n-min",
			"spec-ngram-mod-n-min", "spec-ngram-mod-n-max", "spec-ngram-mod-n-match", "spec-ngram-simple-size-n",
			"spec-ngram-simple-size-m", "spec-ngram-simple-min-hits", "spec-ngram-map-k-size-n", "spec-ngram-map-k-size-m", "spec-ngram-map-k-min-hits",
			"spec-ngram-map-k4v-size-n", "spec-ngram-map-k4v-size-m", "spec-ngram-map-k4v-min-hits",
			"spec-ngram-size-n", "spec-ngram-size-m", "spec-ngram-min-hits",
		}, true, lookup},
		{[]string{"spec-default"}, false, lookup},
		{[]string{"delay"}, true, "tests follow each other at once"},
		{[]string{"progress"}, false, "a terminal shows it"},
		{[]string{"mmp"}, true, "--no-repack computes on the mapped file"},
	}
}

// granted returns why a flag of llama.cpp has no effect, and whether it is among grantedFlags.
func granted(name string) (why string, ok bool) {
	for _, f := range grantedFlags() {
		if slices.Contains(f.names, name) {
			return f.why, true
		}
	}
	return "", false
}

// grant adds the missing ones of grantedFlags, hidden, to a command that loads a model. One note names those that a
// user gives.
func grant(c *cli.Command) {
	own := map[string]bool{}
	for _, f := range c.Flags {
		for _, n := range f.Names() {
			own[n] = true
		}
	}
	if !own["model"] || !own["threads"] {
		return
	}
	all := grantedFlags()
	if !own["device"] {
		all = append(all, llamaFlag{[]string{"n-gpu-layers", "gpu-layers", "ngl", "device", "dev"}, true, "it computes on the processor"})
	}
	if !own["batch-size"] {
		all = append(all, llamaFlag{[]string{"batch-size", "b", "ubatch-size", "ub"}, true, "texts are read a chunk at a time"})
	}
	var added []llamaFlag
	for _, g := range all {
		for _, name := range g.names {
			if own[name] {
				continue
			}
			added = append(added, llamaFlag{[]string{name}, g.value, g.why})
			if g.value || c.Name == "bench" && slices.Contains(benchValues, name) {
				c.Flags = append(c.Flags, &cli.StringFlag{Name: name, Hidden: true})
			} else {
				c.Flags = append(c.Flags, &cli.BoolFlag{Name: name, Hidden: true})
			}
		}
	}
	action := c.Action
	c.Action = func(ctx context.Context, c *cli.Command) error {
		noteGranted(c, added)
		return action(ctx, c)
	}
}

// noteGranted prints one line about flags without effect, and why.
func noteGranted(c *cli.Command, flags []llamaFlag) {
	var whys []string
	by := map[string][]string{}
	for _, f := range flags {
		if !c.IsSet(f.names[0]) {
			continue
		}
		if by[f.why] == nil {
			whys = append(whys, f.why)
		}
		by[f.why] = append(by[f.why], "--"+f.names[0])
	}
	for i, why := range whys {
		whys[i] = strings.Join(by[why], ", ") + ": " + why
	}
	if len(whys) > 0 {
		fmt.Fprintf(screen.Err, "note: flags of llama.cpp that change nothing here: %s\n", strings.Join(whys, "; "))
	}
}

// benchValues are the flags that take no value here, but 0, 1 or a list of them in llama-bench.
var benchValues = []string{"mmap", "mmp", "direct-io", "dio", "no-op-offload", "nopo", "no-host"}

// withOptionalValues joins flags with the values that are optional in llama.cpp: of -fa, and in llama-bench of
// benchValues.
func withOptionalValues(args []string) []string {
	bench := len(args) > 1 && args[1] == "bench"
	var out []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		name := strings.TrimLeft(a, "-")
		flash := name == "fa" || name == "flash-attn"
		if a != name && (flash || bench && (slices.Contains(benchValues, name) || name == "nkvo" || name == "no-kv-offload")) {
			switch {
			case i+1 < len(args) && (slices.Contains([]string{"on", "off", "auto"}, args[i+1]) || args[i+1] != "" && strings.Trim(args[i+1], "01,") == ""):
				i++
				a += "=" + args[i]
			case flash:
				a += "=auto"
			}
		}
		out = append(out, a)
	}
	return out
}
