package peers

// MissingFlags returns llama.cpp's flags, those of its common/arg.cpp of November 2026, that no command here has.
// TestLlamaFlags compares them with an arg.cpp.
func MissingFlags() []missing {
	const (
		draft     = "leave it out: a draft model, -md FILE, takes the model's own settings"
		sound     = "only text and pictures are read: use llama.cpp for sound"
		audio     = "only text is written: use llama.cpp for speech"
		diffusion = "diffusion models are not supported: use llama.cpp for them"
		training  = "weights are not trained here: use llama.cpp or PyTorch, and convert the result"
		preset    = "name the model: -hf user/repo[:quant]"
		vectors   = "make it part of the model, or use llama.cpp"
		tasks     = "powerinfer eval hellaswag, winogrande or multiple-choice scores tasks: -f FILE, --limit N"
		agent     = "run a coding agent against powerinfer serve: docs/clients.md"
		proxy     = "put a proxy such as nginx before powerinfer serve"
		fit       = "powerinfer plan shows what fits, and loading keeps to it"
		logs      = "messages go to standard error: redirect it"
		matrix    = "powerinfer imatrix --help shows its own flags"
		dialogue  = "powerinfer chat talks, by the model's own template"
	)
	return []missing{
		{[]string{"usage"}, "use --help"},
		{[]string{"version"}, "use powerinfer version"},
		{[]string{"gan", "grp-attn-n", "gaw", "grp-attn-w"}, "run, chat and batch have it, whose texts share no keys; --rope-scaling yarn --rope-scale N extends the context everywhere"},
		{[]string{"cl", "cache-list"}, "powerinfer list shows what was downloaded"},
		{[]string{"completion-bash"}, "powerinfer completion bash"},
		{[]string{"server-base"}, "give clients the address that powerinfer serve prints"},
		{[]string{"in-file"}, "use -f FILE"},
		{[]string{"bf", "binary-file"}, "use -f FILE: its bytes are the prompt as they are"},
		{[]string{"sp", "special"}, "requests to powerinfer serve have special"},
		{[]string{"i", "interactive", "if", "interactive-first", "in-prefix-bos", "in-prefix", "in-suffix"}, dialogue},
		{[]string{"attention"}, "the model's file says whether its attention is causal"},
		{[]string{"hellaswag", "hellaswag-tasks", "winogrande", "winogrande-tasks", "multiple-choice", "multiple-choice-tasks"}, tasks},
		{[]string{"ppl-output-type"}, "powerinfer perplexity prints chunk after chunk"},
		{[]string{"ns", "sequences"}, "powerinfer batch continues many prompts, --parallel at a time"},
		{[]string{"audio", "video"}, sound},
		{[]string{"rpc"}, "one machine computes: docs/kubernetes.md shares requests among several"},
		{[]string{"fitp", "fit-print"}, fit},
		{[]string{"control-vector", "control-vector-scaled", "control-vector-layer-range"}, vectors},
		{[]string{"mu", "model-url", "dr", "docker-repo"}, "-hf user/repo downloads from the Hugging Face hub"},
		{[]string{"mtp"}, "-hf brings a repository's draft model along; --spec-type ngram,draft-mtp has the layer guess that a model's own file holds"},
		{[]string{"dflash", "eagle3"}, "-hf brings a repository's draft model along"},
		{[]string{"context-file", "chunk-size", "chunk-separator"}, "/v1/embeddings of powerinfer serve gives the vectors; the search is yours"},
		{[]string{"junk", "pos"}, "write the prompt to a file and use -f"},
		{[]string{"output-file"}, "use -o"},
		{[]string{"ppl"}, matrix},
		{[]string{"oe", "output-err"}, "messages are text: redirect standard error"},
		{[]string{"pg"}, "powerinfer bench -p N -n N times prompts and generation apart, -npl both together"},
		{[]string{"embd"}, "powerinfer embedding computes vectors"},
		{[]string{"pps"}, "powerinfer bench -npl shares the prompt's beginning where prompts are equal"},
		{[]string{"tgs"}, "powerinfer bench -npl times generation apart from prompts"},
		{[]string{"path"}, "--no-webui leaves the page out; serve another with " + proxy},
		{[]string{"api-prefix"}, proxy},
		{[]string{"ui-mcp-proxy", "webui-mcp-proxy", "mcp-servers-config", "mcp-servers-json", "ag", "agent"}, agent},
		{[]string{"models-preset"}, "flags of powerinfer serve hold for all models of --models-dir"},
		{[]string{"reasoning-budget-message", "reasoning-preserve"}, "--reasoning is on, off or auto; --chat-template-kwargs sets what a template takes"},
		{[]string{"skip-chat-parsing"}, "/completion gives the text as it is"},
		{[]string{"no-prefill-assistant"}, "end the messages with the user's"},
		{[]string{"positive-file", "negative-file", "pca-batch", "pca-iter", "method"}, vectors},
		{[]string{"log-prompts-dir"}, logs},
		{[]string{"spec-synth-len", "spec-synth-rates"}, "guesses are never made up: powerinfer bench times them as they come"},
		{[]string{"tts-lang", "tts-speaker-file"}, audio},
		{[]string{"diffusion-steps", "diffusion-visual", "diffusion-eps", "diffusion-algorithm", "diffusion-alg-temp", "diffusion-block-length", "diffusion-cfg-scale", "diffusion-add-gumbel-noise"}, diffusion},
		{[]string{"lr", "learning-rate", "lr-min", "learning-rate-min", "decay-epochs", "learning-rate-decay-epochs", "wd", "weight-decay", "val-split", "epochs", "opt", "optimizer"}, training},
		{[]string{"check", "save-logits", "logits-output-dir", "tensor-filter"}, "powerinfer perplexity --kl-divergence-base saves predictions and --kl-divergence compares them"},
		{[]string{"embd-gemma-default", "fim-qwen-1.5b-default", "fim-qwen-3b-default", "fim-qwen-7b-default", "fim-qwen-7b-spec", "fim-qwen-14b-spec", "fim-qwen-30b-default", "gpt-oss-20b-default", "gpt-oss-120b-default", "vision-gemma-4b-default", "vision-gemma-12b-default"}, preset},
	}
}
