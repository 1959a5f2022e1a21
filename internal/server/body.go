package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
)

// readBody reads a request's body, which must come within the timeout.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (*Fields, error) {
	body, err := s.readAll(w, r)
	if err != nil {
		return nil, err
	}
	f, err := parseFields(body)
	if err == nil {
		f.unknown = func(name string) { s.unknown.tell(s.o.Log, r.URL.Path, name) }
		f.of(r)
		f.media = &attached{web: s.web}
	}
	return f, err
}

// errLarge refuses a body that is too large.
var errLarge = &Error{Status: http.StatusRequestEntityTooLarge, Type: "invalid_request_error", Message: fmt.Sprintf("the body is larger than %d MiB", maxBody>>20)}

// readAll reads a request's body, and reserves the memory that its values will need.
func (s *Server) readAll(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := s.receive(w, r)
	if err != nil {
		return nil, err
	}
	_, values, objects := shape(body)
	return body, Reserve(w, r, int64(values)*perValue+int64(objects)*perObject)
}

// slow returns the error of a body that came too slowly.
func (s *Server) slow(w http.ResponseWriter) *Error {
	e := &Error{Status: http.StatusRequestTimeout, Type: "invalid_request_error"}
	if x := exchangeOf(w); x != nil && x.share.lost() {
		e.Message, e.RetryAfter = "the body came too slowly while other requests waited for its memory; try again later", retryAfter
		return e
	}
	e.Message = fmt.Sprintf("nothing of the body came within %v, or less than %d bytes in a second; --timeout allows more", s.o.Timeout, leastRate)
	return e
}

// receive reads a request's body. It reserves the memory first.
func (s *Server) receive(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	known := r.ContentLength >= 0
	size := int64(unknownBody)
	if known {
		size = r.ContentLength
	}
	if size > maxBody {
		return nil, errLarge
	}
	if form := r.Header.Get("Content-Encoding"); form != "" && form != "identity" {
		return nil, &Error{Status: http.StatusUnsupportedMediaType, Type: "invalid_request_error", Message: fmt.Sprintf("bodies encoded as %.20q are not read: send the JSON as it is", form)}
	}
	x := exchangeOf(w)
	if x != nil {
		x.conn.work(-1) // a request that waits for memory is not being answered yet
	}
	err := Reserve(w, r, size*perByte)
	if x != nil {
		x.conn.work(1)
	}
	if err != nil {
		return nil, err
	}
	if x != nil {
		x.share.read(true)
		defer x.share.read(false)
	}
	for body := make([]byte, 0, min(size+1, unknownBody)); ; {
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case len(body) > maxBody:
			return nil, errLarge
		case err == io.EOF:
			return body, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, s.slow(w)
		case err != nil:
			return nil, Invalid("the body could not be read: %s", err)
		case len(body) < cap(body):
			continue
		}
		if !known && int64(len(body)) >= size {
			if err := Reserve(w, r, size*perByte); err != nil {
				return nil, err
			}
			size *= 2
		}
		body = slices.Grow(body, max(1, int(min(size+1, 2*int64(len(body))))-len(body)))
	}
}

// Reserve waits until the request that w answers may take n more bytes of memory. They are released when the request
// has been answered. A handler calls it before it makes much data from a small request.
func Reserve(_ http.ResponseWriter, r *http.Request, n int64) error {
	return reserve(r.Context(), n)
}

// reserve is Reserve for the request that ctx belongs to.
func reserve(ctx context.Context, n int64) error {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	if x == nil {
		return nil // a test's writer
	}
	return x.share.more(ctx, x.s.Stopping(), n)
}

// unreserve gives back n bytes that reserve took for the request that ctx belongs to.
func unreserve(ctx context.Context, n int64) {
	if x, _ := ctx.Value(exchangeKey{}).(*exchange); x != nil && x.share.pool != nil && n > 0 {
		x.share.pool.give(&x.share, n)
	}
}

// Encode returns the tokens of a text as tokenizer.Encode does. It reserves the memory that they take, and ends with
// ctx, the context of a request.
func (m *Model) Encode(ctx context.Context, text string, addSpecial, parseSpecial bool) ([]int32, error) {
	return m.Engine.Tokenizer().EncodeWithin(text, addSpecial, parseSpecial, reserving(ctx))
}

// reserving returns a function that reserves memory for the request that ctx belongs to until ctx ends.
func reserving(ctx context.Context) func(n int64) error {
	return func(n int64) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return reserve(ctx, n)
	}
}
