// Package powerinfer runs language models in GGUF files on the processor and on GPUs, also models that are larger than
// the GPU's memory.
//
//	m, err := powerinfer.Open(ctx, "model.gguf", powerinfer.Options{})
//	if err != nil {
//		return err
//	}
//	defer m.Close()
//	c := powerinfer.Conversation{Messages: []powerinfer.Message{{Role: "user", Content: "Why is the sky blue?"}}}
//	for part, err := range m.Chat(ctx, c, powerinfer.Generation{}) {
//		if err != nil {
//			return err
//		}
//		if text, ok := part.(powerinfer.Text); ok {
//			fmt.Print(text)
//		}
//	}
//
// Chat answers conversations, with tools and JSON Schemas. Generate continues a text. Embed and Rerank serve embedding
// models and rerankers. Pull downloads models of the Hugging Face hub, and List lists the downloaded ones.
//
// A feed-forward layer is a set of neurons. A few, the hot ones, do most of the work for every input. GPUs hold these.
// The others stay in RAM. The CPU computes them only where a predictor, or the zeros of the activation function, say
// that they are needed. Files of `powerinfer prepare` name their hot neurons and hold predictors. All other files work
// as well.
//
// A Model may be used by many goroutines. Their generations are computed together, and each gives the same text as
// alone. Package evaluate measures models.
// alone. Package evaluate measures models.
package powerinfer

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/powerinfer-go/powerinfer/internal/chat"
	"github.com/powerinfer-go/powerinfer/internal/engine"
	"github.com/powerinfer-go/powerinfer/internal/gguf"
	"github.com/powerinfer-go/powerinfer/internal/grammar"
	"github.com/powerinfer-go/powerinfer/internal/sample"
	"github.com/powerinfer-go/powerinfer/internal/session"
)

// Model is an open model. Its methods may be called from several goroutines.
type Model struct {
	session *session.Session
	info    Info
	close   func() error // closes the model once

	pool       engine.Pooling                      // Embed's; empty: the file decides
	vocabulary func() (*grammar.Vocabulary, error) // the tokenizer's vocabulary, made when the first grammar is used
	breakers   last[*sample.Breakers]
	template   last[*chat.Template]
	calls      last[*heldCalls]
	rules      last[*grammar.Compiled] // of the last generation with a grammar
	notice     func(string)
	noted      sync.Map // lines that note has shown
}

func init() {
	session.Of = func(model any) *session.Session { return model.(*Model).session }
	session.OptionsOf = func(options any) (session.Options, error) { return options.(*Options).session() }
}

// Open opens the GGUF file at path and loads the model. For a split model, path is the first part, and Open opens all
// parts. The end of ctx stops loading and the measurement of the machine, which takes seconds, once per machine with a
// GPU. If a file cannot be opened, the error wraps an *fs.PathError's cause, such as fs.ErrNotExist. If the model does
// not fit into memory, the error is a *MemoryError.
func Open(ctx context.Context, path string, o Options) (*Model, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	return open(ctx, f, o)
}

// OpenFS opens a model as a file of a file system. It maps a file of the operating system, and reads any other into
// memory.
func OpenFS(ctx context.Context, fsys fs.FS, name string, o Options) (*Model, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if file, ok := f.(*os.File); ok {
		return Open(ctx, file.Name(), o)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	return OpenBytes(ctx, name, data, o)
}

// OpenBytes opens a model that is entirely in memory. data may not change until the model is closed. name is for
// messages.
func OpenBytes(ctx context.Context, name string, data []byte, o Options) (*Model, error) {
	f, err := gguf.Parse(name, data)
	if err != nil {
		return nil, err
	}
	return open(ctx, f, o)
}

// open loads the model in f. It closes f on failure.
func open(ctx context.Context, f *gguf.File, o Options) (*Model, error) {
	s, err := func() (*session.Session, error) {
		if err := session.Override(f, o.Overrides); err != nil {
			return nil, err
		}
		so, err := o.session()
		if err != nil {
			return nil, err
		}
		return session.Open(ctx, f, so)
	}()
	if err != nil {
		return nil, tell(errors.Join(err, f.Close()))
	}
	m := &Model{session: s, info: infoOf(s), pool: engine.Pooling(o.Pooling), notice: o.Notice, close: sync.OnceValue(s.Close)}
	if m.notice == nil {
		m.notice = func(string) {}
	}
	m.vocabulary = sync.OnceValues(func() (*grammar.Vocabulary, error) { return session.Vocabulary(s.Tokenizer()) })
	return m, nil
}

// Close ends all generations with ErrClosed, frees the model and closes its file.
func (m *Model) Close() error { return m.close() }
