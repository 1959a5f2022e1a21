package ollama

import (
	"net/http"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/hub"
	"github.com/powerinfer-go/powerinfer/internal/server"
)

// progressEvery is the time between two messages about a file's progress.
const progressEvery = 100 * time.Millisecond

// A status is a line of a pull's progress.
type status struct {
	Status    string `json:"status"`
	Digest    string `json:"digest,omitempty"`
	Total     int64  `json:"total,omitempty"`
	Completed int64  `json:"completed,omitempty"`
}

func (a *api) pull(w http.ResponseWriter, r *http.Request, f *server.Fields) error {
	n, err := server.HubName(a.hub, nameOf(f))
	if err != nil {
		return err
	}
	stream := true
	f.Read("stream", &stream)
	f.Ignore("insecure", "username", "password")
	if err := f.Close(); err != nil {
		return err
	}
	ctx, done := a.s.UntilStop(r.Context()) // what was fetched of a file is kept
	defer done()
	if !stream {
		if _, err := a.hub.Pull(ctx, n, nil); err != nil {
			return server.HubError(err)
		}
		server.WriteJSON(w, status{Status: "success"})
		return nil
	}
	p := &pulling{lines: server.NewLineStream(w)}
	if p.lines.Send(status{Status: "pulling manifest"}) != nil {
		return nil // the client is gone
	}
	if _, err := a.hub.Pull(ctx, n, p.tell); err != nil {
		p.lines.Send(map[string]string{"error": p.lines.Told(server.HubError(err)).Message})
		return nil
	}
	p.lines.Send(status{Status: "success"})
	return nil
}

// pulling reports the progress of a pull. A client that leaves ends it.
type pulling struct {
	lines *server.LineStream
	file  string
	told  time.Time
}

func (p *pulling) tell(g hub.Progress) {
	if g.File == "" || g.File == p.file && g.FileDone < g.FileTotal && time.Since(p.told) < progressEvery {
		return
	}
	p.file, p.told = g.File, time.Now()
	s := status{Status: "pulling " + g.File, Total: g.FileTotal, Completed: g.FileDone}
	if g.SHA256 != "" {
		s.Status, s.Digest = "pulling "+g.SHA256[:12], "sha256:"+g.SHA256
	}
	p.lines.Send(s)
}

func (a *api) remove(w http.ResponseWriter, r *http.Request, f *server.Fields) error {
	n, err := server.HubName(a.hub, nameOf(f))
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := a.s.Remove(r.Context(), a.hub, n); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}
