// Package peers gives advice about commands and flags of Ollama and llama.cpp that do not exist here, and finds the
// intended name of a mistyped one.
package peers

import (
	"slices"
	"strings"
)

// missing is a group of commands or flags of another program that do not exist here, with one piece of advice.
type missing struct {
	Names   []string // without dashes
	Instead string   // the advice; a sentence's end
}

// InsteadOf returns the advice about the command or flag of that name.
func InsteadOf(list []missing, name string) (instead string, ok bool) {
	for _, m := range list {
		if slices.Contains(m.Names, name) {
			return m.Instead, true
		}
	}
	return "", false
}

// Commands returns commands of Ollama and llama.cpp that are missing here or have another name.
func Commands() []missing {
	return []missing{
		{[]string{"cp", "copy", "mv", "rename"}, "models are files of the Hugging Face cache and keep their names; --alias NAME of powerinfer serve gives one another name for clients"},
		{[]string{"create"}, "a model is a GGUF file: powerinfer convert and quantize make one, and flags set what a Modelfile would"},
		{[]string{"push", "login", "signin", "signout"}, "models are only read from the Hugging Face hub; HF_TOKEN holds a token for private ones"},
		{[]string{"launch"}, "start powerinfer serve and point the program at it: docs/clients.md"},
		{[]string{"generate", "complete", "llama-completion", "main"}, "use powerinfer run"},
		{[]string{"talk", "llama-cli", "cli", "repl", "llama-run"}, "use powerinfer chat"},
		{[]string{"server", "start", "llama-server", "api"}, "use powerinfer serve"},
		{[]string{"download", "get", "fetch", "install"}, "use powerinfer pull"},
		{[]string{"search", "find", "library"}, "powerinfer models lists models by short names; the hub's others are at https://huggingface.co/models?library=gguf"},
		{[]string{"remove", "delete", "del", "uninstall"}, "use powerinfer rm"},
		{[]string{"info", "gguf-dump", "dump"}, "powerinfer show says what a model is, powerinfer inspect what its file holds"},
		{[]string{"llama-bench", "benchmark"}, "use powerinfer bench"},
		{[]string{"llama-batched-bench", "batched-bench"}, "use powerinfer bench -npl"},
		{[]string{"llama-perplexity", "ppl"}, "use powerinfer perplexity"},
		{[]string{"llama-quantize"}, "use powerinfer quantize"},
		{[]string{"llama-imatrix"}, "use powerinfer imatrix"},
		{[]string{"llama-tokenize", "tok"}, "use powerinfer tokenize"},
		{[]string{"llama-embedding", "embed", "embeddings"}, "use powerinfer embedding"},
		{[]string{"unload", "kill"}, "powerinfer stop has a running server free a model"},
		{[]string{"status"}, "powerinfer ps lists what a running server has loaded, powerinfer health says whether it answers"},
		{[]string{"devices", "gpus"}, "powerinfer run --list-devices lists GPUs, powerinfer doctor measures them"},
		{[]string{"update", "upgrade"}, "install a newer powerinfer as this one was; powerinfer pull NAME updates a model"},
	}
}

// Flags returns flags of Ollama that no command here has.
func Flags() []missing {
	return []missing{
		{[]string{"think"}, "--reasoning off has models that can do so answer without thoughts"},
		{[]string{"hidethinking"}, "on a terminal thoughts are folded"},
		{[]string{"format"}, `--json-schema '{"type":"object"}' has the model answer in JSON`},
		{[]string{"keepalive"}, "--keep-alive of powerinfer serve says how long models stay loaded"},
		{[]string{"nowordwrap"}, "--simple-io writes plain text"},
		{[]string{"insecure"}, "HF_ENDPOINT may name a hub by http://"},
		{[]string{"num-ctx", "num_ctx"}, "-c N sets the context"},
		{[]string{"num-gpu", "num_gpu"}, "-ngl N puts whole layers on the GPU; by default a plan says what lies there"},
		{[]string{"num-predict", "num_predict", "max-tokens", "max_tokens"}, "-n N bounds the tokens of an answer"},
		{[]string{"num-thread", "num_thread"}, "-t N sets the threads"},
	}
}

// Action translates Ollama's commands of a conversation into ours.
func Action(name, argument string) (string, string) {
	switch name {
	case "bye", "quit", "q":
		return "exit", argument
	case "?":
		return "help", argument
	case "show":
		return "model", ""
	case "set":
		word, rest, _ := strings.Cut(argument, " ")
		switch word {
		case "system":
			return "system", strings.Trim(rest, `"`)
		case "parameter":
			argument = strings.TrimSpace(rest)
		}
		option, value, set := strings.Cut(argument, " ")
		if option = strings.ReplaceAll(option, "_", "-"); set {
			option += " " + value
		}
		return name, option
	}
	return name, argument
}
