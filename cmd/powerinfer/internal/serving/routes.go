package serving

import (
	"net/http"

	"github.com/powerinfer-go/powerinfer/internal/hub"
	"github.com/powerinfer-go/powerinfer/internal/hw"
	"github.com/powerinfer-go/powerinfer/internal/server"
	"github.com/powerinfer-go/powerinfer/internal/server/anthropic"
	"github.com/powerinfer-go/powerinfer/internal/server/llamacpp"
	"github.com/powerinfer-go/powerinfer/internal/server/metrics"
	"github.com/powerinfer-go/powerinfer/internal/server/neurons"
	"github.com/powerinfer-go/powerinfer/internal/server/ollama"
	"github.com/powerinfer-go/powerinfer/internal/server/openai"
	"github.com/powerinfer-go/powerinfer/internal/server/openapi"
	"github.com/powerinfer-go/powerinfer/internal/server/page"
	"github.com/powerinfer-go/powerinfer/internal/server/responses"
)

// New returns a server with all routes. It shows counters if o.Meter comes from Meter. If h is not nil, clients may
// fetch models from h and remove them.
func New(models server.Models, h *hub.Hub, o server.Options) *server.Server {
	if mem, err := hw.ReadMemory(); err == nil {
		o.RAM = int64(mem.Total)
	}
	if o.Fetches = h != nil; o.Fetches {
		for _, m := range hub.Shorts() {
			o.Known = append(o.Known, server.Published{Name: m.Name, At: m.At, Bytes: int64(m.Bytes), About: m.About})
		}
	}
	s := server.New(models, o)
	llamacpp.Register(s, h)
	neurons.Register(s)
	openai.Register(s)
	responses.Register(s)
	anthropic.Register(s)
	ollama.Register(s, h)
	openapi.Register(s)
	if m, ok := o.Meter.(*metrics.Metrics); ok {
		m.Register(s)
	} else {
		metrics.Refuse(s)
	}
	return s
}

// Meter returns the counters for /metrics; several says that the server has several models.
func Meter(several bool) server.Meter { return metrics.New(several) }

// Page answers browsers with the page, and hands other requests to next.
func Page(next http.Handler) http.Handler { return page.Handler(next) }

// mostConnections limits the clients' open connections; each takes some KiB.
const mostConnections = 1024

// Connections returns how many connections clients may have open, if the process may open this many files. Model files,
// downloads and the log need some, too. 0 files means no known limit.
func Connections(files int) int {
	if files == 0 {
		return mostConnections
	}
	return max(8, min(mostConnections, files*3/4))
}
