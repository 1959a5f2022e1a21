package main

// A missingFlag is one or several flags of llama.cpp's that no command here has, or none to which the advice is given.
type missingFlag struct {
	names   []string // without dashes
	instead string   // what to do; a sentence's end
}

// missingFlags returns llama.cpp's flags, those of its common/arg.cpp of November 2026, that no command here has.
// TestLlamaFlags compares them with an arg.cpp.
func missingFlags() []missingFlag {
	const (
		unneeded    = "leave it out"
		draft       = "leave it out: a draft model, -md FILE, takes the model's own settings"
		pictures    = "only text is read: use llama.cpp for pictures and sound"
		audio       = "only text is written: use llama.cpp for speech"
		diffusion   = "diffusion models are not supported: use llama.cpp for them"
		training    = "weights are not trained here: use llama.cpp or PyTorch, and convert the result"
		preset      = "name the model: -hf user/repo[:quant]"
		vectors     = "make it part of the model, or use llama.cpp"
		taskset     = "start it with taskset"
		divide      = "--vram-budget 8,11 divides a model between GPUs"
		tasks       = "powerinfer eval hellaswag, winogrande or multiple-choice scores tasks: -f FILE, --limit N"
		agent       = "run a coding agent against powerinfer serve: docs/clients.md"
		proxy       = "put a proxy such as nginx before powerinfer serve"
		fit         = "powerinfer plan shows what fits, and loading keeps to it"
		checkpoints = "windowed layers need none: what is missing is evaluated again"
		logs        = "messages go to standard error: redirect it"
		lookup      = "--spec-draft-n-max N guesses at most N tokens at a time, and fewer where that does not pay"
		matrix      = "powerinfer imatrix --help shows its own flags"
		dialogue    = "powerinfer chat talks, by the model's own template"
	)
	return []missingFlag{
		{[]string{"usage"}, "use --help"},
		{[]string{"gan", "grp-attn-n", "gaw", "grp-attn-w"}, "run, chat and batch have it, whose texts share no keys; --rope-scaling yarn --rope-scale N extends the context everywhere"},
		{[]string{"cl", "cache-list"}, "powerinfer list shows what was downloaded"},
		{[]string{"completion-bash"}, "powerinfer completion bash"},
		{[]string{"server-base"}, "give clients the address that powerinfer serve prints"},
		{[]string{"verbose-prompt"}, "powerinfer tokenize shows a prompt's tokens"},
		{[]string{"co", "color"}, "set NO_COLOR for plain text; on a terminal powerinfer chat is coloured"},
		{[]string{"C", "cpu-mask", "Cr", "cpu-range", "cpu-strict", "Cb", "cpu-mask-batch", "Crb", "cpu-range-batch", "cpu-strict-batch"}, taskset},
		{[]string{"prio-batch", "poll-batch"}, "nice powerinfer … gives priorities; workers wait for 100 µs before they sleep"},
		{[]string{"lcs", "lookup-cache-static", "lcd", "lookup-cache-dynamic"}, draft},
		{[]string{"ctxcp", "ctx-checkpoints", "swa-checkpoints", "cms", "checkpoint-min-step"}, checkpoints},
		{[]string{"cram", "cache-ram"}, "-c sets how many tokens of all conversations are kept"},
		{[]string{"no-kvu", "no-kv-unified"}, "requests share one KV cache: -c is for all of them"},
		{[]string{"cache-idle-slots", "no-cache-idle-slots"}, "what was computed stays until its room is needed"},
		{[]string{"in-file"}, "use -f FILE"},
		{[]string{"bf", "binary-file"}, "use -f FILE: its bytes are the prompt as they are"},
		{[]string{"ptc", "print-token-count"}, "the last line says how many tokens were generated"},
		{[]string{"reverse-prompt"}, dialogue + "; requests to powerinfer serve have stop"},
		{[]string{"sp", "special"}, "requests to powerinfer serve have special"},
		{[]string{"i", "interactive", "if", "interactive-first", "in-prefix-bos", "in-prefix", "in-suffix"}, dialogue},
		{[]string{"spm-infill"}, "/infill of powerinfer serve uses the order that the model's file says"},
		{[]string{"bs", "backend-sampling"}, unneeded + ": tokens are chosen on the processor"},
		{[]string{"attention"}, "the model's file says whether its attention is causal"},
		{[]string{"hellaswag", "hellaswag-tasks", "winogrande", "winogrande-tasks", "multiple-choice", "multiple-choice-tasks"}, tasks},
		{[]string{"ppl-output-type"}, "powerinfer perplexity prints chunk after chunk"},
		{[]string{"ns", "sequences"}, "powerinfer batch continues many prompts, --parallel at a time"},
		{[]string{"nocb", "no-cont-batching"}, "--parallel 1 computes one request after the other"},
		{[]string{"mm", "mmproj", "mmu", "mmproj-url", "mmproj-auto", "mmdev", "mmproj-device", "mmproj-offload", "no-mmproj-offload", "image", "audio", "video", "image-min-tokens", "image-max-tokens", "mtmd-batch-max-tokens", "media-path"}, pictures},
		{[]string{"rpc"}, "one machine computes: docs/kubernetes.md shares requests among several"},
		{[]string{"lm", "load-mode"}, "--no-repack computes on the mapped file, --mlock keeps weights out of swap"},
		{[]string{"numa"}, "start it with numactl"},
		{[]string{"sm", "split-mode", "ts", "tensor-split"}, divide},
		{[]string{"mg", "main-gpu"}, "use --device"},
		{[]string{"fit", "fitp", "fit-print", "fitt", "fit-target", "fitc", "fit-ctx"}, fit},
		{[]string{"no-op-offload", "nopo"}, "--stream-tokens 0 computes where the weights lie"},
		{[]string{"control-vector", "control-vector-scaled", "control-vector-layer-range"}, vectors},
		{[]string{"tags"}, "--alias names a model"},
		{[]string{"mu", "model-url", "dr", "docker-repo"}, "-hf user/repo downloads from the Hugging Face hub"},
		{[]string{"mtp"}, "--spec-type ngram,draft-mtp has the layer guess that a model's own file holds"},
		{[]string{"dflash", "eagle3"}, draft},
		{[]string{"context-file", "chunk-size", "chunk-separator"}, "/v1/embeddings of powerinfer serve gives the vectors; the search is yours"},
		{[]string{"junk", "pos"}, "write the prompt to a file and use -f"},
		{[]string{"output-file"}, "use -o"},
		{[]string{"ppl"}, matrix},
		{[]string{"delay"}, "start powerinfer bench again after a while: sleep 60"},
		{[]string{"progress"}, unneeded + ": a terminal shows it"},
		{[]string{"oe", "output-err"}, "messages are text: redirect standard error"},
		{[]string{"pg"}, "powerinfer bench -p N -n N times prompts and generation apart, -npl both together"},
		{[]string{"embd"}, "powerinfer embedding computes vectors"},
		{[]string{"mmp"}, "--no-repack computes on the mapped file"},
		{[]string{"pps"}, "powerinfer bench -npl shares the prompt's beginning where prompts are equal"},
		{[]string{"tgs"}, "powerinfer bench -npl times generation apart from prompts"},
		{[]string{"reuse-port"}, unneeded + ": one process answers all requests"},
		{[]string{"path"}, "--no-webui leaves the page out; serve another with " + proxy},
		{[]string{"cors-origins"}, "use --cors-origin, once for each"},
		{[]string{"cors-methods", "cors-headers", "cors-credentials", "no-cors-credentials"}, "--cors-origin allows what the API needs"},
		{[]string{"api-prefix"}, proxy},
		{[]string{"ui-config", "webui-config", "ui-config-file", "webui-config-file"}, "the page keeps its settings in the browser"},
		{[]string{"ui-mcp-proxy", "webui-mcp-proxy", "no-ui-mcp-proxy", "no-webui-mcp-proxy", "tools", "tools-runtime", "mcp-servers-config", "mcp-servers-json", "ag", "agent", "no-ag", "no-agent"}, agent},
		{[]string{"sse-ping-interval"}, "streams need none: answers begin within --timeout"},
		{[]string{"no-cache-prompt"}, "requests have cache_prompt: false"},
		{[]string{"cache-reuse"}, unneeded + ": equal beginnings of prompts are always shared"},
		{[]string{"props"}, "flags of powerinfer serve set what POST /props would"},
		{[]string{"no-slots"}, "--api-key keeps strangers from /slots"},
		{[]string{"models-preset"}, "flags of powerinfer serve hold for all models of --models-dir"},
		{[]string{"no-models-autoload"}, "leave out --models-dir: one model is served"},
		{[]string{"no-jinja"}, "chat templates are always Jinja; --chat-template NAME chooses another"},
		{[]string{"reasoning-format", "reasoning-effort", "reasoning-budget", "reasoning-budget-message", "reasoning-preserve", "no-reasoning-preserve"}, "--reasoning on, off or auto of powerinfer serve; --chat-template-kwargs sets what a template takes"},
		{[]string{"skip-chat-parsing"}, "/completion gives the text as it is"},
		{[]string{"no-prefill-assistant"}, "end the messages with the user's"},
		{[]string{"sps", "slot-prompt-similarity"}, unneeded + ": every request uses the longest beginning that is there"},
		{[]string{"sleep-idle-seconds"}, "--keep-alive of powerinfer serve frees models that are not used"},
		{[]string{"positive-file", "negative-file", "pca-batch", "pca-iter", "method"}, vectors},
		{[]string{"log-prompts-dir"}, logs},
		{[]string{"log-verbose"}, "use --verbose"},
		{[]string{
			"spec-draft-threads", "td", "threads-draft", "spec-draft-threads-batch", "tbd", "threads-batch-draft",
			"spec-draft-cpu-mask", "Cd", "cpu-mask-draft", "spec-draft-cpu-range", "Crd", "cpu-range-draft", "spec-draft-cpu-strict", "cpu-strict-draft",
			"spec-draft-prio", "prio-draft", "spec-draft-poll", "poll-draft", "spec-draft-cpu-mask-batch", "Cbd", "cpu-mask-batch-draft",
			"spec-draft-cpu-range-batch", "Crbd", "cpu-range-batch-draft", "spec-draft-cpu-strict-batch", "cpu-strict-batch-draft",
			"spec-draft-prio-batch", "prio-batch-draft", "spec-draft-poll-batch", "poll-batch-draft", "spec-draft-type-k", "ctkd", "cache-type-k-draft",
			"spec-draft-type-v", "ctvd", "cache-type-v-draft", "spec-draft-override-tensor", "otd", "override-tensor-draft", "spec-draft-cpu-moe", "cmoed",
			"cpu-moe-draft", "spec-draft-n-cpu-moe", "spec-draft-ncmoe", "ncmoed", "n-cpu-moe-draft",
			"spec-draft-p-split", "draft-p-split", "spec-draft-backend-sampling", "no-spec-draft-backend-sampling",
		}, draft},
		{[]string{
			"spec-ngram-mod-n-min", "spec-ngram-mod-n-max", "spec-ngram-mod-n-match", "spec-ngram-simple-size-n",
			"spec-ngram-simple-size-m", "spec-ngram-simple-min-hits", "spec-ngram-map-k-size-n", "spec-ngram-map-k-size-m", "spec-ngram-map-k-min-hits",
			"spec-ngram-map-k4v-size-n", "spec-ngram-map-k4v-size-m", "spec-ngram-map-k4v-min-hits",
			"draft-min",
			"draft-n-min", "spec-ngram-size-n", "spec-ngram-size-m", "spec-ngram-min-hits", "spec-default",
			"spec-draft-n-min",
		}, lookup},
		{[]string{"tts-lang", "tts-speaker-file"}, audio},
		{[]string{"diffusion-steps", "diffusion-visual", "diffusion-eps", "diffusion-algorithm", "diffusion-alg-temp", "diffusion-block-length", "diffusion-cfg-scale", "diffusion-add-gumbel-noise"}, diffusion},
		{[]string{"lr", "learning-rate", "lr-min", "learning-rate-min", "decay-epochs", "learning-rate-decay-epochs", "wd", "weight-decay", "val-split", "epochs", "opt", "optimizer"}, training},
		{[]string{"check", "save-logits", "logits-output-dir", "tensor-filter"}, "powerinfer perplexity --kl-divergence-base saves predictions and --kl-divergence compares them"},
		{[]string{
			"embd-gemma-default", "fim-qwen-1.5b-default", "fim-qwen-3b-default", "fim-qwen-7b-default", "fim-qwen-7b-spec", "fim-qwen-14b-spec", "fim-qwen-30b-default",
			"gpt-oss-20b-default", "gpt-oss-120b-default", "vision-gemma-4b-default", "vision-gemma-12b-default",
		}, preset},
	}
}

// missing returns what to do instead of giving a flag that llama.cpp has, and whether it has one of that name.
func missing(name string) (instead string, ok bool) {
	for _, f := range missingFlags() {
		for _, n := range f.names {
			if n == name {
				return f.instead, true
			}
		}
	}
	return "", false
}
