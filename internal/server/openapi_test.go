package server_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"

	"github.com/powerinfer-go/powerinfer/internal/server/metrics"
	"github.com/powerinfer-go/powerinfer/internal/server/openapi"
)

// document is the OpenAPI document, read and checked once.
var document = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(openapi.Document)
	if err == nil {
		err = doc.Validate(openapi3.NewLoader().Context)
	}
	return doc, err
})

// heldToDocument returns next with a check of accepted requests and all answers against the document, as clients see
// them.
func heldToDocument(t testing.TB, next http.Handler) http.Handler {
	doc, err := document()
	if err != nil {
		t.Fatalf("openapi.json: %v", err)
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route, params, err := router.FindRoute(r)
		if err != nil || r.ContentLength > largestChecked {
			next.ServeHTTP(w, r)
			return
		}
		kept := &keptAnswer{ResponseWriter: w, status: http.StatusOK}
		var body bytes.Buffer
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, &body), r.Body}
		next.ServeHTTP(kept, r)
		checkAnswer(t, kept, body.Bytes(), &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route, Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, MultiError: false,
		}})
	})
}

// largestChecked bounds the bodies that are compared, in bytes.
const largestChecked = 1 << 20

// keptAnswer keeps an answer that it passes on.
type keptAnswer struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (k *keptAnswer) WriteHeader(status int) {
	k.status = status
	k.ResponseWriter.WriteHeader(status)
}

func (k *keptAnswer) Write(b []byte) (int, error) {
	if k.body.Len() < largestChecked {
		k.body.Write(b)
	}
	return k.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (k *keptAnswer) Unwrap() http.ResponseWriter { return k.ResponseWriter }

func checkAnswer(t testing.TB, k *keptAnswer, request []byte, in *openapi3filter.RequestValidationInput) {
	r := in.Request
	if k.body.Len() >= largestChecked || r.Method == http.MethodOptions || r.Context().Err() != nil {
		return
	}
	if k.status == http.StatusOK && len(request) > 0 {
		again := r.Clone(r.Context())
		request = bytes.TrimPrefix(request, []byte("\ufeff")) // taken, too
		again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(request)), int64(len(request))
		again.Header.Set("Content-Type", "application/json") // curl's default is another, and taken, too
		in.Request = again
		if err := openapi3filter.ValidateRequest(r.Context(), in); err != nil {
			t.Errorf("%s %s: the request %.300q was granted, and the document does not have it: %.600v", r.Method, r.URL.Path, request, err)
		}
	}
	answer := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: k.status, Header: k.ResponseWriter.Header(),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	if kind := k.ResponseWriter.Header().Get("Content-Type"); !strings.HasPrefix(kind, "application/json") {
		answer.Options.ExcludeResponseBody = true // events: their tests read them
		if route := in.Route.Operation.Responses.Status(k.status); route != nil && route.Value.Content.Get(kind) == nil && (kind != "" || len(route.Value.Content) > 0) {
			t.Errorf("%s %s is answered by %s, which the document does not have", r.Method, r.URL.Path, kind)
		}
		return
	}
	answer.SetBodyBytes(k.body.Bytes())
	if err := openapi3filter.ValidateResponse(r.Context(), answer); err != nil {
		t.Errorf("%s %s: the answer %d %.300q is none of the document's: %.900v", r.Method, r.URL.Path, k.status, k.body.Bytes(), err)
	}
}

// routeOf returns the document's route for a pattern of the server's.
func routeOf(doc *openapi3.T, pattern string) *routers.Route {
	method, path, _ := strings.Cut(pattern, " ")
	if item := doc.Paths.Value(path); item != nil && item.GetOperation(method) != nil {
		return &routers.Route{Operation: item.GetOperation(method)}
	}
	return nil
}

// TestDocument: the served document has exactly the server's routes.
func TestDocument(t *testing.T) {
	l := start(t, nil)
	metrics.Refuse(l.s)
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	routes := l.s.Routes()
	for i := range routes {
		routes[i] = strings.Replace(routes[i], "...}", "}", 1) // names may have slashes, which the document cannot say
	}
	for _, pattern := range routes {
		if strings.Contains(pattern, " ") && !strings.HasSuffix(pattern, "/{$}") && routeOf(doc, pattern) == nil {
			t.Errorf("openapi.json lacks %s: describe it there", pattern)
		}
	}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			if !slices.Contains(routes, method+" "+path) {
				t.Errorf("openapi.json has %s %s, which the server has not", method, path)
			}
		}
	}
	res := l.request(t.Context(), "GET", "/openapi.json", "")
	defer res.Body.Close()
	var served map[string]any
	if err := json.NewDecoder(res.Body).Decode(&served); err != nil || served["openapi"] != "3.0.3" {
		t.Errorf("the document served: %v", err)
	}
}
