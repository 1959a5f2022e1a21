package server

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/hub"
)

// HubName returns the name of a model of h, which is nil where the server neither downloads nor removes models.
func HubName(h *hub.Hub, name string) (hub.Name, error) {
	if h == nil {
		return hub.Name{}, NotSupported("this server has one model and neither downloads nor removes others; powerinfer pull and rm do, or powerinfer serve --models-dir FOLDER")
	}
	n, err := hub.ParseName(name)
	if err != nil {
		return n, Invalid("%s", err)
	}
	return n, nil
}

// HubError returns an error of the hub as clients are told it.
func HubError(err error) error {
	for is, status := range map[error]int{
		hub.ErrNotFound: http.StatusNotFound, hub.ErrDenied: http.StatusForbidden, hub.ErrInUse: http.StatusConflict,
		hub.ErrOffline: http.StatusBadGateway, hub.ErrDamaged: http.StatusBadGateway, hub.ErrNoRoom: http.StatusInsufficientStorage,
		context.Canceled: http.StatusServiceUnavailable,
	} {
		if errors.Is(err, is) {
			advice := ""
			if is == hub.ErrOffline {
				advice = "; look at the network of the machine that the server runs on"
			}
			return newError(status, serverError, "%s%s", err, advice)
		}
	}
	return err
}

// Remove frees a model of h and removes it from its cache.
func (s *Server) Remove(ctx context.Context, h *hub.Hub, n hub.Name) error {
	for _, l := range s.Models.List() {
		if l.State == Loaded && strings.EqualFold(l.Name, n.String()) {
			if err := s.Models.Unload(ctx, l.Name); err != nil {
				return err
			}
		}
	}
	if _, err := h.Remove(ctx, n); err != nil {
		return HubError(err)
	}
	return nil
}
