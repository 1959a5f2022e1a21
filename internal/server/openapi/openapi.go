// Package openapi serves the document that describes all routes. The tests of package server check handlers against it:
// it has every route, and every accepted request and every answer is valid by it.
package openapi

import (
	_ "embed"
	"net/http"

	"github.com/powerinfer-go/powerinfer/internal/server"
)

// Document is the description in OpenAPI 3.0's form.
//
//go:embed openapi.json
var Document []byte

// Register adds the route to s.
func Register(s *server.Server) {
	s.API(server.CommonForm).Get("/openapi.json", func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "application/json")
		_, err := w.Write(Document)
		return err
	})
}
