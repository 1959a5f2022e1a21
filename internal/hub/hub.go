// Package hub downloads models from the Hugging Face hub into its cache folder and finds them there. The folder has the
// layout of Python's huggingface_hub and llama.cpp, so that each finds what another has downloaded:
//
//	models--user--repo/refs/main                     the commit of the branch
//	models--user--repo/snapshots/COMMIT/file.gguf    a symbolic link to ../../blobs/HASH, or the file itself
//	models--user--repo/blobs/HASH                    the content, by its SHA-256; HASH.incomplete during a download
//	models--user--repo/trees/COMMIT.json             the repository's list of files
//	.locks/models--user--repo/HASH.lock              held while HASH is downloaded
//
// Nothing outside of a repository's folder is read or written for it, whatever names the hub sends and whatever links
// the folder has.
//
// Sources: huggingface_hub 1.x (file_download.py, _tree_cache.py), llama.cpp (common/hf-cache.cpp,
// common/download.cpp), both August 2026.
package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/setting"
)

// Hub is a hub and the folder of its files. Safe for concurrent use.
type Hub struct {
	o        Options
	endpoint *url.URL
	client   *http.Client
	wait     func(ctx context.Context, d time.Duration) error // between tries
	stall    time.Duration                                    // time without a byte after which a download restarts
	piece    int64                                            // bytes of one request
}

// New returns the hub that o names. Nothing is asked or created yet.
func New(o Options) (*Hub, error) {
	u, err := parseEndpoint(o.Endpoint)
	if err != nil {
		return nil, err
	}
	if err := checkToken(o.Token); err != nil {
		return nil, err
	}
	if o.Folder, err = filepath.Abs(o.Folder); err != nil {
		return nil, err
	}
	h := &Hub{o: o, endpoint: u, wait: sleep, stall: stallAfter, piece: largestPiece}
	h.client = &http.Client{Transport: newTransport(), CheckRedirect: h.redirected}
	return h, nil
}

// Offline reports whether the network must not be asked.
func (h *Hub) Offline() bool { return h.o.Offline }

// Folder returns the cache.
func (h *Hub) Folder() string { return h.o.Folder }

func (h *Hub) note(format string, args ...any) {
	if h.o.Note != nil {
		h.o.Note(fmt.Sprintf(format, args...))
	}
}

// What an error means for those who ask: errors.Is finds these in errors of Resolve, Pull and Remove.
var (
	ErrNotFound = errors.New("no such model")                       // neither at the hub nor in the cache
	ErrDenied   = errors.New("the hub does not allow it")           // a token is missing, or its owner has not accepted the model's terms
	ErrOffline  = errors.New("the hub cannot be reached")           // or must not be
	ErrInUse    = errors.New("it is being downloaded")              // by somebody else
	ErrDamaged  = errors.New("the received bytes are not the file") // it has another hash or size
	ErrNoRoom   = errors.New("the disk is full")                    // or would be
)

// failure is an error with one of the meanings above and its own sentence.
type failure struct {
	means, says error
}

func (f *failure) Error() string               { return f.says.Error() }
func (f *failure) Text(n setting.Names) string { return setting.Text(f.says, n) }
func (f *failure) Unwrap() error               { return f.means }

// The settings that failures name.
const (
	tokenSetting   setting.Setting = "HF_TOKEN or --hf-token|HF_TOKEN"
	offlineSetting setting.Setting = "--offline or HF_HUB_OFFLINE|HF_HUB_OFFLINE"
)

func failed(means error, format string, args ...any) error {
	return &failure{means, setting.Errorf(format, args...)}
}

// Resolve returns the files of a model in the cache, without asking the network. If the newest commit known here is
// incomplete, an older one will do.
func (h *Hub) Resolve(_ context.Context, n Name) (Model, error) {
	m, _, err := h.local(n)
	return m, err
}

// Use returns the files of a model: from the cache if they are complete and no other model could be meant, else by
// Pull, else, if the hub cannot be reached, what the cache has.
func (h *Hub) Use(ctx context.Context, n Name, progress func(Progress)) (Model, error) {
	m, certain, err := h.local(n)
	if err == nil && (certain || h.o.Offline) {
		return m, nil
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return m, err
	}
	pulled, pullErr := h.Pull(ctx, n, progress)
	if err == nil && errors.Is(pullErr, ErrOffline) {
		h.note("%s cannot be reached: going on with %s of the cache", h.o.Endpoint, m.Name)
		return m, nil
	}
	return pulled, pullErr
}

// local finds a complete model in the cache. certain is false if the hub could have meant another file by n.
func (h *Hub) local(n Name) (m Model, certain bool, err error) {
	r, err := h.open(n.Repo)
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, h.notCached(n)
	}
	if err != nil {
		return m, false, err
	}
	defer r.close()
	for i, c := range r.commits() {
		files, exact := r.list(c)
		chosen, usual, err := choose(files, n)
		if err != nil {
			continue
		}
		if m, ok := r.complete(c, chosen); ok {
			m.Name = nameOf(n.Repo, files, chosen[0].Path)
			whole := true
			if more := h.along(files, chosen[0].Path); len(more) > 0 {
				_, whole = r.complete(c, more)
			}
			return m, i == 0 && (exact || usual) && whole, nil
		}
	}
	return m, false, h.notCached(n)
}

// notCached says that n is not in the cache, and which models are.
func (h *Hub) notCached(n Name) error {
	return failed(ErrNotFound, "%s is not in the cache; %s", n, h.holds())
}

// holds lists the models in the cache.
func (h *Hub) holds() string {
	list, err := h.List()
	var names []string
	for _, m := range list {
		if m.Complete {
			names = append(names, m.Name)
		}
	}
	if err != nil || len(names) == 0 {
		return "no model is cached in " + h.o.Folder
	}
	slices.Sort(names)
	return "cached are " + listed(names)
}
