package server

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/powerinfer-go/powerinfer/internal/hub"
)

// HubName returns the name of a model of h. h is nil if the server neither downloads nor removes models.
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

// HubError returns an error of the hub in the form for clients.
func HubError(err error) error {
	if errors.Is(err, context.Canceled) { // otherwise its client is gone, and nobody reads this
		return Unavailable("the server is stopping; ask again when it runs again, and a download goes on where it was")
	}
	for _, k := range []struct { // an error that matches several counts as the first
		is     error
		status int
		advice string
	}{
		{hub.ErrNotFound, http.StatusNotFound, ""},
		{hub.ErrDenied, http.StatusForbidden, ""},
		{hub.ErrInUse, http.StatusConflict, ""},
		{hub.ErrNoRoom, http.StatusInsufficientStorage, ""},
		{hub.ErrDamaged, http.StatusBadGateway, ""},
		{hub.ErrOffline, http.StatusBadGateway, "; look at the network of the machine that the server runs on"},
	} {
		if errors.Is(err, k.is) {
			return newError(k.status, serverError, "%s%s", err, k.advice)
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
