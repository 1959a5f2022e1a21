package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/flags"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/modelname"
	"github.com/powerinfer-go/powerinfer/cmd/powerinfer/internal/serving"
	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/chat/answer"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/server"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// usualSlots is the default number of requests that generate at a time.
const usualSlots = 4

func serveCommand() *cli.Command {
	return &cli.Command{
		Name: "serve", UsageText: `powerinfer serve qwen3:0.6b
powerinfer serve model.gguf --port 8081 --parallel 8
powerinfer serve --models-dir models --host 0.0.0.0 --api-key SECRET`, Usage: "answer requests over HTTP, as llama-server and OpenAI's API do",
		Description: `The page is at http://127.0.0.1:8080; clients of OpenAI's API take http://127.0.0.1:8080/v1 as their base URL.
docs/server.md has all routes and fields. Ctrl-C stops the server when the running requests have ended, a second Ctrl-C at once.
All requests together take at most --request-memory, besides the model.`,
		Flags: slices.Concat(flags.Engine(), flags.Drafts(), flags.Tower(), flags.About(flags.PictureSubject, []cli.Flag{
			&cli.StringSliceFlag{Name: "media-domains", Usage: "fetch pictures that requests give by their addresses from this `HOST`, such as example.org or *.example.org, or several with commas; * is every host of the public network; may be repeated; default: none, pictures come in requests"},
		}), libraryFlags(), listenFlags(), clientFlags(), flags.Shift(), []cli.Flag{
			&cli.IntFlag{Name: "parallel", Aliases: []string{"np"}, Value: usualSlots, Usage: "`N` requests that generate at a time, over one KV cache; with --ctx-size each has the Nth part of it, unless --kv-unified is given, too", Sources: flags.Env("N_PARALLEL")},
			&cli.BoolFlag{Name: "kv-unified", Aliases: []string{"kvu"}, Usage: "with --ctx-size and --parallel, a request may use the whole context while the others leave it room", Sources: flags.Env("KV_UNIFIED")},
			&cli.BoolFlag{Name: "no-kv-unified", Aliases: []string{"no-kvu"}, Hidden: true},
			&cli.IntFlag{Name: "kv-unified-per-slot", Usage: "`TOKENS` that a request may use of the context", Sources: flags.Env("KV_UNIFIED_PER_SLOT"), HideDefault: true},
			&cli.BoolFlag{Name: "lora-init-without-apply", Usage: "load LoRA adapters with the scale 0; requests or POST /lora-adapters set another"},
			&cli.IntFlag{Name: "max-queue", Value: 512, Usage: "requests that may wait; further ones are told to try again later"},
			&cli.StringFlag{Name: "alias", Aliases: []string{"a"}, Usage: "the model's `NAME` for clients, or several with commas: lists show the first in the alphabet; default: the short name that it was given by, or the file's", Sources: flags.Env("ALIAS")},
			&cli.StringFlag{Name: "tags", Usage: "`TAGS` of the model in lists, with commas", Sources: flags.Env("TAGS")},
			&cli.StringSliceFlag{Name: "api-key", Usage: "`KEY` that requests must have, or several with commas; may be repeated", Sources: cli.NewValueSourceChain(flags.Variable("LLAMA_API_KEY"))},
			&cli.StringFlag{Name: "api-key-file", Usage: "read keys from `FILE`, one on each line; lines that begin with # are comments; it is read again when it changes"},
			&cli.BoolFlag{Name: "no-webui", Aliases: []string{"no-ui"}, Usage: "serve no page to browsers", Sources: flags.Env("NO_WEBUI")},
			&cli.StringSliceFlag{Name: "cors-origin", Aliases: []string{"cors-origins"}, Usage: "let web pages of this `ORIGIN` ask, such as https://example.org, or several with commas; * is all, localhost those of this machine; may be repeated; default: all where there are keys, else those of this machine", Sources: flags.Env("CORS_ORIGINS")},
			&cli.IntFlag{Name: "n-predict", Aliases: []string{"n", "predict"}, Value: -1, Usage: "tokens of an answer where a request says nothing; -1: until the text or the context ends", Sources: flags.Env("N_PREDICT")},
			poolingFlag(),
			&cli.BoolFlag{Name: "rerank", Aliases: []string{"reranking"}, Usage: "rank documents, as --pooling rank does", Sources: flags.Env("RERANKING")},
			&cli.IntFlag{Name: "embd-normalize", Value: euclid, Usage: "of /embedding, where a request says nothing: " + normUsage},
			&cli.BoolFlag{Name: "embeddings", Aliases: []string{"embedding"}, Usage: "accepted; embeddings are always answered", Sources: flags.Env("EMBEDDINGS")},
			&cli.StringFlag{Name: "reasoning-format", Value: "auto", Usage: "where thoughts of chats go where a request does not say: `FORM` auto or deepseek (apart from the content), none (in it), deepseek-legacy (both)", Sources: flags.Env("THINK")},
			&cli.IntFlag{Name: "reasoning-budget", Value: -1, Usage: "`TOKENS` of a thought where a request does not say; -1: no limit", Sources: flags.Env("THINK_BUDGET")},
			&cli.BoolFlag{Name: "no-cache-prompt", Usage: "read every prompt from its beginning, unless a request says cache_prompt"},
			&cli.BoolFlag{Name: "no-slots", Usage: "answer /slots with 501"},
			&cli.BoolFlag{Name: "spm-infill", Usage: "/infill puts the suffix before the prefix, as some models were trained", Sources: flags.Env("SPM_INFILL")},
			&cli.IntFlag{Name: "sleep-idle-seconds", Value: -1, Usage: "free the model when nobody asked for `SECONDS`, and load it again for the next request; -1: never", Sources: flags.Env("SLEEP_IDLE_SECONDS")},
			&cli.StringFlag{Name: "slot-save-path", Usage: "let requests save what the KV cache has of their texts in the folder `DIR`, and restore it", Sources: flags.Env("SLOT_SAVE_PATH")},
			&cli.BoolFlag{Name: "metrics", Usage: "answer /metrics, for Prometheus", Sources: flags.Env("ENDPOINT_METRICS")},
		}, flags.Template(), flags.Sampling(), logFlags(), []cli.Flag{
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v", "log-verbose"}, Usage: "say how the model is computed, and add prompt and settings to answers in OpenAI's form, as __verbose"},
		}),
		Action: func(ctx context.Context, c *cli.Command) error {
			return serve(ctx, c)
		},
	}
}

func serve(ctx context.Context, c *cli.Command) error {
	if c.Bool("list-devices") {
		return listDevices()
	}
	log, closeLog, err := openLog(c)
	if err != nil {
		return err
	}
	defer closeLog()
	o, err := serverOptions(c, log)
	if err != nil {
		return err
	}
	allowEnding(ctx, o.Grace)
	m, err := modelOptions(c, o.Log)
	if err != nil {
		return err
	}
	m.Meter = o.Meter
	if err := flags.CheckGeneration(c); err != nil {
		return err
	}
	l, url, err := address(c).Listen(ctx) // before the model is loaded, which takes long
	if err != nil {
		return err
	}
	defer l.Close() // removes a socket's file if the server never starts
	if len(o.Keys) == 0 && o.KeyFile == "" && !o.Local {
		o.Log.Warn("everyone who reaches this address may ask: --api-key or --api-key-file asks for a key")
	}
	if several(c) {
		return serveLibrary(ctx, c, o, m, l, url)
	}
	if c.Int("sleep-idle-seconds") >= 0 {
		return serveSleeping(ctx, c, o, m, l, url)
	}
	models := &server.Single{}
	s := serving.New(models, nil, o)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { // answers health checks while the model is loaded
		ended <- s.Serve(ctx, l)
		stop()
	}()
	e, err := loadServed(ctx, c, m, models, url)
	if err != nil {
		stop()
		return errors.Join(err, <-ended)
	}
	defer e.Close()
	return <-ended
}

// loadServed loads the model with a progress bar, and adds it to models.
func loadServed(ctx context.Context, c *cli.Command, o server.ModelOptions, models *server.Single, url string) (*session.Session, error) {
	e, err := openSession(ctx, c, o.Slots)
	if err != nil {
		return nil, err
	}
	if err := completeOptions(c, e, &o); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	if o.Demo {
		o.Log.Warn("this is the embedded demo, a tiny model that tells tales; to chat: powerinfer serve qwen3:0.6b")
	}
	models.Set(serving.Listed(e, o, server.NewModel(e.Engine, o)))
	line := []any{"url", url, "model", o.Name, "slots", o.Slots, "context", e.Context(), "device", e.Device()}
	for _, file := range []struct{ name, path string }{{"draft", e.DraftsBy()}, {"mmproj", e.ShownBy()}} {
		if file.path != "" {
			line = append(line, file.name, file.path)
		}
	}
	o.Log.Info("listening", line...)
	return e, nil
}

// demoAnswers is the number of answers that fit into the embedded model's small context if requests set no length.
const demoAnswers = 3

// completeOptions sets the options that depend on the model, unless the flags set them.
func completeOptions(c *cli.Command, e *session.Session, o *server.ModelOptions) error {
	var err error
	o.Tower = e.Tower()
	if o.Sampling, err = flags.ReadSessionSampling(c, e); err != nil {
		return err
	}
	if c.Int64("seed") < 0 {
		o.Sampling.Seed = sample.RandomSeed // each request draws its own
	}
	if o.Demo = flags.IsDemo(c) && c.String("models-dir") == ""; o.Demo && !c.IsSet("n-predict") {
		o.Predict = e.Context() / demoAnswers
	}
	if o.Name == "" {
		o.Name = modelname.Short(c)
	}
	if o.Path = e.File.Path; o.Name == "" {
		o.Name = strings.TrimSuffix(filepath.Base(o.Path), ".gguf")
	}
	if o.SlotContext == 0 && divides(c) {
		o.SlotContext = max(leastContext, e.Context()/o.Slots)
	}
	if o.Plan, err = e.Planner.Plan(); err != nil {
		return err
	}
	if o.Pooling, err = choosePooling(c, e.File); err != nil {
		return err
	}
	if e.CheckPooling(o.Pooling) != nil {
		o.Log.Warn("the model has no classification head, so it is no reranker: documents are ranked by how near their embeddings are to the query's")
		o.Similar = true
		if o.Pooling, err = engine.PoolingOf(e.File); err != nil {
			return err
		}
		if o.Pooling == engine.PoolRank || o.Pooling == engine.PoolNone {
			o.Pooling = engine.PoolMean
		}
	}
	return chooseTemplate(c, e, o)
}

// leastContext is a slot's smallest context in tokens.
const leastContext = 16

// divides reports whether the slots share the context, as in llama-server if its number is set. The default context is
// not divided.
func divides(c *cli.Command) bool {
	return c.Bool("no-kv-unified") || c.Int("ctx-size") > 0 && c.IsSet("parallel") && c.Int("parallel") > 0 && !c.Bool("kv-unified") && !c.IsSet("kv-unified-per-slot")
}

// listOf returns the sorted elements of a flag with a comma-separated list.
func listOf(text string) []string {
	var all []string
	for e := range strings.SplitSeq(text, ",") {
		if e = strings.TrimSpace(e); e != "" {
			all = append(all, e)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// choosePooling returns the pooling of the flags, else of the file, else the mean.
func choosePooling(c *cli.Command, f *gguf.File) (engine.Pooling, error) {
	name := c.String("pooling")
	if c.Bool("rerank") {
		if name != "" && name != string(engine.PoolRank) {
			return "", fmt.Errorf("--rerank is --pooling rank, and not %s; give one of them", name)
		}
		name = string(engine.PoolRank)
	}
	if name == "" {
		return engine.PoolingOf(f)
	}
	p, err := engine.ParsePooling(name)
	if err != nil {
		return "", fmt.Errorf("--pooling: %w", err)
	}
	return p, nil
}

// modelOptions reads the flags that concern requests of a model, as far as they need no model.
func modelOptions(c *cli.Command, log *slog.Logger) (server.ModelOptions, error) {
	o := server.ModelOptions{
		Slots: c.Int("parallel"), SlotContext: c.Int("kv-unified-per-slot"), Aliases: listOf(c.String("alias")), Tags: listOf(c.String("tags")), Queue: c.Int("max-queue"), Predict: c.Int("n-predict"), Log: log,
		Verbose: c.Bool("verbose"), LogPrompts: c.Bool("log-prompts"), Shift: c.Bool("context-shift"), SlotPath: c.String("slot-save-path"),
		Norm: c.Int("embd-normalize"), NoReuse: c.Bool("no-cache-prompt"), HideSlots: c.Bool("no-slots"), SuffixFirst: c.Bool("spm-infill"),
	}
	if len(o.Aliases) > 0 {
		o.Name = o.Aliases[0]
	}
	if o.Slots == -1 { // llama.cpp's name of the default
		o.Slots = usualSlots
	}
	if budget := c.Int("reasoning-budget"); budget >= 0 {
		o.ThinkingBudget = &budget
	}
	var err error
	if o.Thoughts, err = answer.ParseReasoningFormat(c.String("reasoning-format")); err != nil {
		return o, fmt.Errorf("--reasoning-format: %w", err)
	}
	if o.SlotPath != "" {
		if info, err := os.Stat(o.SlotPath); err != nil || !info.IsDir() {
			return o, fmt.Errorf("--slot-save-path %s is not a folder; make it first", o.SlotPath)
		}
	}
	switch {
	case o.Slots < 1 || o.Slots > mostSequences:
		return o, fmt.Errorf("--parallel %d is not a number from 1 to %d", o.Slots, mostSequences)
	case o.Norm < -1 || o.Norm > engine.MaxNorm:
		return o, fmt.Errorf("--embd-normalize %d is not a number from -1 to %d", o.Norm, engine.MaxNorm)
	case o.SlotContext != 0 && o.SlotContext < leastContext:
		return o, fmt.Errorf("--kv-unified-per-slot %d is not a number of tokens from %d on", o.SlotContext, leastContext)
	case c.Int("sleep-idle-seconds") < -1 || c.Int("sleep-idle-seconds") > 1<<30:
		return o, fmt.Errorf("--sleep-idle-seconds %d is neither a number of seconds nor -1 for never", c.Int("sleep-idle-seconds"))
	case o.Queue < 0:
		return o, fmt.Errorf("--max-queue %d is not a number of requests", o.Queue)
	}
	if o.Keep, err = flags.ReadKeep(c); err != nil {
		return o, err
	}
	o.Kwargs, err = flags.ReadKwargs(c)
	return o, err
}

// serverOptions reads the flags that need no model.
func serverOptions(c *cli.Command, log *slog.Logger) (server.Options, error) {
	at := address(c)
	o := server.Options{Log: log, Local: at.Local()}
	if err := clientBounds(c, &o); err != nil {
		return o, err
	}
	if several(c) {
		o.Router = &server.Router{Most: c.Int("models-max"), Autoload: !c.Bool("no-models-autoload")}
	}
	for _, origins := range c.StringSlice("cors-origin") {
		for _, origin := range listOf(origins) {
			o.Origins = append(o.Origins, strings.TrimSuffix(origin, "/")) // browsers' origins have none
		}
	}
	if host := c.String("host"); host != "" && at.Socket() == "" {
		o.Hosts = append(o.Hosts, host)
	}
	for _, hosts := range c.StringSlice("allowed-hosts") {
		for _, text := range listOf(hosts) {
			host, err := server.ParseHost(text)
			if err != nil {
				return o, fmt.Errorf("--allowed-hosts: %w", err)
			}
			o.Hosts = append(o.Hosts, host)
		}
	}
	for _, hosts := range c.StringSlice("media-domains") {
		for _, text := range listOf(hosts) {
			host, err := server.ParseHost(text)
			if err != nil {
				return o, fmt.Errorf("--media-domains: %w", err)
			}
			o.MediaDomains = append(o.MediaDomains, host)
		}
	}
	if !c.Bool("no-webui") {
		o.Page = serving.Page
	}
	if c.Bool("metrics") {
		o.Meter = serving.Meter(several(c))
	}
	switch {
	case c.Int("port") < 0 || c.Int("port") > 1<<16-1:
		return o, fmt.Errorf("--port %d is not a number from 0 to %d", c.Int("port"), 1<<16-1)
	}
	if err := secure(c, &o); err != nil {
		return o, err
	}
	for _, keys := range c.StringSlice("api-key") {
		for key := range strings.SplitSeq(keys, ",") {
			if key = strings.TrimSpace(key); key != "" {
				o.Keys = append(o.Keys, key)
			}
		}
	}
	if o.KeyFile = c.String("api-key-file"); o.KeyFile != "" {
		keys, err := server.ReadKeys(o.KeyFile)
		if err != nil {
			return o, fmt.Errorf("--api-key-file: %w", err)
		}
		if len(keys) == 0 {
			return o, errors.New("--api-key-file holds no key; leave it out to ask for none")
		}
	}
	if len(o.Keys) == 0 && c.IsSet("api-key") {
		return o, errors.New("--api-key holds no key; leave it out to ask for none")
	}
	return o, nil
}

// chooseTemplate sets the template of conversations: the flags', else the model's, else chatml.
func chooseTemplate(c *cli.Command, e *session.Session, o *server.ModelOptions) error {
	var err error
	if o.Template, err = readTemplate(c, e.File); err != nil || o.Template != nil {
		return err
	}
	if e.Config().Headless { // embedding models answer no chats
		o.Template, err = chat.Named("chatml", e.File)
		return err
	}
	if !o.Demo {
		o.Log.Warn("the model has no chat template: it may be a base model; chats are written in chatml, --chat-template names another")
	}
	o.Stop = []string{"<|im_end|>"} // usually not a token of such a model
	o.Template, err = chat.Named("chatml", e.File)
	return err
}
