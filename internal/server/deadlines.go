package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// Bounds of how slowly clients may send and read.
const (
	leastRate = 1 << 10  // bytes a second in which a body must come, after Options.Timeout
	piece     = 16 << 10 // bytes of an answer that an HTTP/2 client must accept within Options.Timeout
)

// past is a deadline in the past.
var past = time.Unix(1, 0)

type connKey struct{}

// withConn puts the connection into the context of its requests.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if own := connOf(c); own != nil {
		return context.WithValue(ctx, connKey{}, own)
	}
	return ctx
}

// timely returns next with deadlines for the client. The client must send the request's body, whether next reads it or
// not, and must read the answer; while next computes there is no deadline. In HTTP/1 an answer that begins before the
// body was read is the last one of its connection, because the server does not wait for the rest of the body.
func (s *Server) timely(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{ResponseWriter: w, s: s, control: http.NewResponseController(w), streams: r.ProtoMajor > 1}
		x.conn, _ = r.Context().Value(connKey{}).(*conn)
		x.share = share{pool: s.memory, client: clientOf(r.RemoteAddr), giveUp: func() { x.control.SetReadDeadline(past) }}
		r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x))
		if r.Body != nil && r.Body != http.NoBody {
			x.body = &timedBody{ReadCloser: r.Body, x: x}
			r.Body = x.body // net/http's own request keeps its own body
		}
		x.conn.work(1)
		defer x.end()
		if x.conn != nil && x.conn.gate.many(x.conn) {
			s.refuse(x, r, errManyRequests)
			return
		}
		next.ServeHTTP(x, r)
	})
}

// errManyRequests refuses a request of a client that has too many others.
var errManyRequests = &Error{
	Status: http.StatusTooManyRequests, Type: "rate_limit_error", RetryAfter: retryAfter,
	Message: "too many requests from this address are being answered; try again later",
}

// An exchange is a request with its answer.
type exchange struct {
	http.ResponseWriter
	s       *Server
	control *http.ResponseController
	conn    *conn      // nil if a test has its own listener
	body    *timedBody // nil if there is none
	streams bool       // the request is an HTTP/2 stream: streams share a connection, so each has its own deadlines
	begun   bool       // the answer has begun
	share   share      // its part of the memory for requests
}

// exchangeKey is the key of the exchange in a request's context.
type exchangeKey struct{}

// exchangeOf returns the exchange that w belongs to, or nil.
func exchangeOf(w http.ResponseWriter) *exchange {
	for {
		if x, ok := w.(*exchange); ok {
			return x
		}
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return nil
		}
		w = inner.Unwrap()
	}
}

// Unwrap is for http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

func (x *exchange) WriteHeader(status int) {
	x.begin()
	x.ResponseWriter.WriteHeader(status)
}

// begin makes the connection close after an answer that does not wait for the body.
func (x *exchange) begin() {
	if !x.begun && !x.streams && x.unread() {
		x.Header().Set("Connection", "close")
	}
	x.begun = true
}

// unread reports whether something of the body may still come.
func (x *exchange) unread() bool { return x.body != nil && !x.body.ended }

// Write writes in pieces, so that an HTTP/2 client has time for each. For HTTP/1 the connection watches progress.
func (x *exchange) Write(p []byte) (n int, err error) {
	x.begin()
	for first := true; first || len(p) > 0; first = false {
		now := p[:min(len(p), piece)]
		x.sending(func() error {
			var m int
			m, err = x.ResponseWriter.Write(now)
			n += m
			return err
		})
		if err != nil {
			return n, err
		}
		p = p[len(now):]
	}
	return n, nil
}

// FlushError is for http.ResponseController.
func (x *exchange) FlushError() error {
	x.begin()
	return x.sending(x.control.Flush)
}

// sending calls do, which waits for the client to accept data.
func (x *exchange) sending(do func() error) error {
	x.conn.work(-1)
	defer x.conn.work(1)
	if !x.streams {
		return do()
	}
	x.control.SetWriteDeadline(time.Now().Add(x.s.o.Timeout))
	defer x.control.SetWriteDeadline(time.Time{}) // it would end the stream even if nothing is being written
	return do()
}

// end ends the exchange. It leaves unsent data and an unread body to net/http, with deadlines.
func (x *exchange) end() {
	x.share.release()
	x.conn.work(-1)
	if x.streams {
		x.control.SetWriteDeadline(time.Now().Add(x.s.o.Timeout))
		return
	}
	if x.unread() {
		x.begin()
		x.control.SetReadDeadline(past) // the connection lingers, see conn.Close
	}
}

// A timedBody is a request's body with a deadline for each read.
type timedBody struct {
	io.ReadCloser
	x        *exchange
	received int64
	spent    time.Duration // how long reads have waited for the client
	ended    bool
}

// left returns how long a read may take.
func (b *timedBody) left() time.Duration {
	patience := b.x.s.o.Timeout
	return min(patience, patience+time.Duration(b.received)*(time.Second/leastRate)-b.spent)
}

func (b *timedBody) Read(p []byte) (int, error) {
	left, begin := b.left(), time.Now()
	b.x.control.SetReadDeadline(begin.Add(left)) // fails for the recorders of tests, which have no deadlines
	if left <= 0 || b.x.share.lost() {           // checked last, because giveUp sets a deadline, too
		return 0, os.ErrDeadlineExceeded
	}
	b.x.conn.work(-1)
	n, err := b.ReadCloser.Read(p)
	b.x.conn.work(1)
	b.spent += time.Since(begin)
	b.received += int64(n)
	b.ended = b.ended || err == io.EOF
	if b.x.streams || err == io.EOF {
		b.x.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
