package server_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/server"
	"github.com/powerinfer-go/powerinfer/internal/server/page"
)

// wires is a listener in memory, so that clocks may be fake. A write waits until the other end reads it.
type wires struct {
	came   chan net.Conn
	fails  chan error // of Accept
	closed chan struct{}
}

func newWires() *wires {
	return &wires{make(chan net.Conn), make(chan error), make(chan struct{})}
}

func (w *wires) Accept() (net.Conn, error) {
	select {
	case c := <-w.came:
		return c, nil
	case err := <-w.fails:
		return nil, err
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *wires) Close() error {
	close(w.closed)
	return nil
}

func (w *wires) Addr() net.Addr { return &net.TCPAddr{} }

// from is a wire's end at the server, with its client's address.
type from struct {
	net.Conn
	client net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.client }

// dial returns a client's end of a new wire.
func (w *wires) dial(client string) net.Conn {
	mine, servers := net.Pipe()
	w.came <- from{servers, &net.TCPAddr{IP: net.ParseIP(client), Port: 1}}
	return mine
}

// attacked runs attack against a server without a model in a bubble with a fake clock. Its routes: /big answers 1 MiB,
// /late after an hour, /stuck when its client is gone and a day is over, /body with the length of the body.
func attacked(t *testing.T, o server.Options, attack func(w *wires, s *server.Server, stop func() error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if o.Log == nil {
			o.Log = slog.New(slog.DiscardHandler)
		}
		s := server.New(&server.Single{}, o)
		api := s.API(server.CommonForm)
		api.Get("/health", func(w http.ResponseWriter, _ *http.Request) error {
			server.WriteJSON(w, "ok")
			return nil
		})
		api.Get("/big", func(w http.ResponseWriter, _ *http.Request) error {
			_, err := w.Write(make([]byte, 1<<20))
			return err
		})
		api.Get("/late", func(w http.ResponseWriter, r *http.Request) error {
			select {
			case <-time.After(time.Hour):
				server.WriteJSON(w, "late")
			case <-r.Context().Done():
			}
			return nil
		})
		api.Get("/stuck", func(http.ResponseWriter, *http.Request) error {
			time.Sleep(24 * time.Hour)
			return nil
		})
		api.Post("/body", func(w http.ResponseWriter, r *http.Request, _ *server.Fields) error {
			server.WriteJSON(w, r.ContentLength)
			return nil
		})
		w := newWires()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ctx, w) }()
		stopped := false
		stop := func() error {
			stopped = true
			cancel()
			return <-ended
		}
		attack(w, s, stop)
		if !stopped {
			if err := stop(); err != nil {
				t.Errorf("Serve: %v", err)
			}
		}
		time.Sleep(25 * time.Hour) // for /stuck
	})
}

// told sends a request and returns the answer, with its body read, or nil where the connection is closed.
func told(c net.Conn, request string) *http.Response {
	go io.WriteString(c, request)
	return readAnswer(c)
}

func readAnswer(c net.Conn) *http.Response {
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return nil
	}
	body, _ := io.ReadAll(res.Body)
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res
}

// closedAfter returns how long the server takes to close a connection over which nothing is sent or read any more.
func closedAfter(c net.Conn) time.Duration {
	begin := time.Now()
	io.Copy(io.Discard, c)
	return time.Since(begin)
}

func get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n" }

// post returns a request that says how long its body is, with what has come of it.
func post(path string, length int, begun string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", path, length, begun)
}

// TestRefusedBeforeBody: a request that needs no body is answered at once, and its connection closes.
func TestRefusedBeforeBody(t *testing.T) {
	for name, k := range map[string]struct {
		request string
		status  int
	}{
		"no key":         {post("/body", 1000, ""), 401},
		"chunked":        {"POST /body HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", 401},
		"origin":         {"POST /body HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nContent-Length: 1000\r\n\r\n", 403},
		"no route":       {"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer key\r\nContent-Length: 1000\r\n\r\n", 404},
		"large":          {"POST /body HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer key\r\nContent-Length: 1000000000\r\n\r\n", 413},
		"health":         {"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", 200},
		"page":           {"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\nContent-Length: 1000\r\n\r\n", 200},
		"continue first": {"POST /body HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n", 401},
	} {
		t.Run(name, func(t *testing.T) {
			o := server.Options{Keys: []string{"key"}, Origins: []string{"https://page.example"}, Page: page.Handler}
			attacked(t, o, func(w *wires, _ *server.Server, _ func() error) {
				begin := time.Now()
				c := w.dial("192.0.2.1")
				res := told(c, k.request)
				if res == nil || res.StatusCode != k.status || !res.Close {
					t.Fatalf("answered by %+v, want the status %d and a connection that closes", res, k.status)
				}
				if closedAfter(c); time.Since(begin) > time.Second {
					t.Errorf("it took %v", time.Since(begin))
				}
			})
		})
	}
}

// TestOptionsOfAll: a request for "*" has the same checks and the same time for its body as others.
func TestOptionsOfAll(t *testing.T) {
	options := func(host, more string) string {
		return "OPTIONS * HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 1000\r\n" + more + "\r\n"
	}
	for name, k := range map[string]struct {
		keys    []string
		request string
		status  int
	}{
		"stranger": {nil, options("evil.example", ""), 421},
		"no key":   {[]string{"key"}, options("localhost", ""), 401},
		"key":      {[]string{"key"}, options("localhost", "Authorization: Bearer key\r\n"), 404},
		"no keys":  {nil, options("localhost", ""), 404},
	} {
		t.Run(name, func(t *testing.T) {
			attacked(t, server.Options{Keys: k.keys, Page: page.Handler}, func(w *wires, _ *server.Server, _ func() error) {
				begin := time.Now()
				c := w.dial("192.0.2.1")
				res := told(c, k.request)
				if res == nil || res.StatusCode != k.status || !res.Close {
					t.Fatalf("answered by %+v, want the status %d and a connection that closes", res, k.status)
				}
				if closedAfter(c); time.Since(begin) > time.Second {
					t.Errorf("it took %v", time.Since(begin))
				}
			})
		})
	}
}

// TestStrangersAreLoggedSeldom: the log warns once a minute about requests with foreign host names.
func TestStrangersAreLoggedSeldom(t *testing.T) {
	var log bytes.Buffer
	o := server.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}
	attacked(t, o, func(w *wires, _ *server.Server, stop func() error) {
		for i := range 30 {
			c := w.dial("192.0.2.1")
			request := fmt.Sprintf("GET /health HTTP/1.1\r\nHost: h%d.evil.example\r\nConnection: close\r\n\r\n", i)
			if res := told(c, request); res == nil || res.StatusCode != http.StatusMisdirectedRequest {
				t.Fatalf("answered by %+v", res)
			}
			c.Close()
			time.Sleep(4 * time.Second)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
	if n := strings.Count(log.String(), "does not go by"); n != 2 {
		t.Errorf("%d warnings in two minutes:\n%s", n, &log)
	}
}

// TestAnswerSurvivesUnreadBody: a client that sends a long body before it reads sees why it was refused.
func TestAnswerSurvivesUnreadBody(t *testing.T) {
	s := server.New(&server.Single{}, server.Options{Keys: []string{"key"}, Log: slog.New(slog.DiscardHandler)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	defer func() {
		stop()
		<-ended
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, post("/body", 16<<20, strings.Repeat(" ", 16<<20))); err != nil {
		t.Fatalf("the body could not be sent: %v", err)
	}
	if res := readAnswer(c); res == nil || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("answered by %+v", res)
	}
}

// TestSlowSenders: headers and bodies must arrive; slow progress may take long.
func TestSlowSenders(t *testing.T) {
	attacked(t, server.Options{Timeout: 30 * time.Second}, func(w *wires, _ *server.Server, _ func() error) {
		for _, begun := range []string{"", "GET / HT", "GET / HTTP/1.1\r\nHost: localhost\r\nX-A: "} {
			c := w.dial("192.0.2.1")
			io.WriteString(c, begun)
			if took := closedAfter(c); took > 10*time.Second {
				t.Errorf("a connection that sent %q is open for %v", begun, took)
			}
		}
		c := w.dial("192.0.2.1")
		begin := time.Now()
		if res := told(c, post("/body", 100, "{")); res == nil || res.StatusCode != http.StatusRequestTimeout || time.Since(begin) != 30*time.Second {
			t.Errorf("a body that does not come is answered by %+v after %v", res, time.Since(begin))
		}
		closedAfter(c)
		for _, k := range []struct {
			rate   int // bytes in 10 s
			status int
		}{{100, 408}, {20000, 200}} {
			c := w.dial("192.0.2.1")
			begin := time.Now()
			go func() {
				io.WriteString(c, post("/body", 200000, ""))
				body := `{"a":"` + strings.Repeat("a", 200000-8) + `"}`
				for len(body) > 0 {
					n := min(len(body), k.rate)
					if _, err := io.WriteString(c, body[:n]); err != nil {
						return
					}
					body = body[n:]
					time.Sleep(10 * time.Second)
				}
			}()
			res := readAnswer(c)
			if res == nil || res.StatusCode != k.status {
				t.Errorf("with %d bytes in 10 s: %+v", k.rate, res)
			}
			if took := time.Since(begin); took > 2*time.Minute {
				t.Errorf("with %d bytes in 10 s it took %v", k.rate, took)
			}
			c.Close()
		}
	})
}

// TestSlowReaders: a client that reads nothing of an answer is disconnected, whatever it asked for. One that reads
// slowly is not, and neither is one that waits for its answer.
func TestSlowReaders(t *testing.T) {
	const patience = 30 * time.Second
	attacked(t, server.Options{Timeout: patience, Page: page.Handler}, func(w *wires, _ *server.Server, _ func() error) {
		for _, request := range []string{
			get("/big"), get("/nowhere"), "nonsense\r\n\r\n", "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n\r\n", "GET /health HTTP/1.1\r\n\r\n",
		} {
			c := w.dial("192.0.2.1")
			io.WriteString(c, request)
			time.Sleep(patience + patience/5)
			if n, _ := io.Copy(io.Discard, c); n > 0 {
				t.Errorf("after %.20q a client that takes nothing is sent %d bytes all the same", request, n)
			}
		}
		c := w.dial("192.0.2.1")
		go io.WriteString(c, get("/big"))
		begin, took := time.Now(), 0
		for piece := make([]byte, 10000); time.Since(begin) < 20*time.Minute; time.Sleep(patience - 5*time.Second) {
			n, err := c.Read(piece)
			if took += n; err != nil {
				t.Fatalf("a client that takes a little at a time is cut: %v", err)
			}
		}
		if took < 100000 {
			t.Errorf("only %d bytes came", took)
		}
		time.Sleep(2 * patience)
		if n, _ := io.Copy(io.Discard, c); n > 0 {
			t.Errorf("%d more bytes come after it stopped reading", n)
		}
		if res := told(w.dial("192.0.2.1"), get("/late")); res == nil || res.StatusCode != 200 {
			t.Errorf("a client that waits an hour for its answer gets %+v", res)
		}
	})
}

// TestSlowStreams is TestSlowReaders over HTTP/2, with streams that wait for their clients.
func TestSlowStreams(t *testing.T) {
	ts := httptest.NewTLSServer(nil)
	certificate := ts.TLS.Certificates[0]
	ts.Close()
	o := server.Options{Timeout: 30 * time.Second, TLS: &tls.Config{Certificates: []tls.Certificate{certificate}}}
	attacked(t, o, func(w *wires, _ *server.Server, _ func() error) {
		transport := &http.Transport{
			DialContext:       func(context.Context, string, string) (net.Conn, error) { return w.dial("192.0.2.1"), nil },
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
			ForceAttemptHTTP2: true, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10},
		}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		ask := func(path string) *http.Response {
			res, err := client.Get("https://localhost" + path)
			if err != nil || res.ProtoMajor != 2 {
				t.Fatalf("%s: %+v %v", path, res, err)
			}
			return res
		}
		late := make(chan *http.Response)
		go func() { late <- ask("/late") }()
		held, slow := ask("/big"), ask("/big")
		for piece := make([]byte, 40000); ; time.Sleep(20 * time.Second) {
			if _, err := slow.Body.Read(piece); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("a client that takes a little at a time is cut: %v", err)
			}
		}
		if n, err := io.Copy(io.Discard, held.Body); err == nil || n > 128<<10 {
			t.Errorf("a client that took nothing is sent %d bytes: %v", n, err)
		}
		if res := <-late; res.StatusCode != 200 {
			t.Errorf("a client that waits an hour for its answer gets %+v", res)
		}
		begin := time.Now()
		body, sends := io.Pipe()
		defer sends.Close()
		res, err := client.Post("https://localhost/body", "application/json", body)
		if err != nil || res.StatusCode != http.StatusRequestTimeout || time.Since(begin) > time.Minute {
			t.Errorf("a body that does not come is answered by %+v, %v after %v", res, err, time.Since(begin))
		}
	})
}

// TestManyConnections: idle connections are closed when others need them, but not those with running requests.
func TestManyConnections(t *testing.T) {
	attacked(t, server.Options{Connections: 8, Grace: time.Second}, func(w *wires, _ *server.Server, _ func() error) {
		working := make(chan *http.Response, 1)
		go func() { working <- told(w.dial("192.0.2.1"), get("/late")) }()
		quiet := w.dial("192.0.2.7")
		synctest.Wait()
		var idle []net.Conn
		for i := range 100 {
			c := w.dial("192.0.2.1")
			if i%2 == 0 {
				io.WriteString(c, "GET / HT")
			} else {
				io.WriteString(c, post("/body", 100, ""))
			}
			synctest.Wait()
			time.Sleep(time.Millisecond) // so that one is the oldest
			idle = append(idle, c)
		}
		for _, client := range []string{"192.0.2.1", "192.0.2.2", "2001:db8::1"} {
			c := w.dial(client)
			if res := told(c, get("/health")); res == nil || res.StatusCode != 200 {
				t.Errorf("%s is answered by %+v", client, res)
			}
			c.Close()
		}
		if res := told(quiet, get("/health")); res == nil || res.StatusCode != 200 {
			t.Errorf("a client with one connection lost it: %+v", res)
		}
		for _, c := range idle[:80] {
			if took := closedAfter(c); took > 0 {
				t.Fatalf("an old connection is open for %v more", took)
			}
		}
		if res := <-working; res == nil || res.StatusCode != 200 {
			t.Errorf("the request that was being answered ended with %+v", res)
		}
	})
}

// TestManyRequests: one address gets at most half of the requests. If all connections are busy, others get an error.
func TestManyRequests(t *testing.T) {
	attacked(t, server.Options{Connections: 8, Grace: time.Second}, func(w *wires, _ *server.Server, _ func() error) {
		for range 4 {
			io.WriteString(w.dial("192.0.2.1"), get("/stuck"))
		}
		synctest.Wait()
		res := told(w.dial("192.0.2.1"), get("/health"))
		if res == nil || res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" {
			t.Errorf("the fifth request of an address is answered by %+v", res)
		}
		for i := range 4 {
			io.WriteString(w.dial(fmt.Sprintf("192.0.2.%d", 2+i)), get("/stuck"))
			synctest.Wait()
		}
		if res := readAnswer(w.dial("192.0.2.9")); res == nil || res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("where all connections are busy a client is told %+v", res)
		}
	})
}

// TestNoFilesLeft: if the process has no more files, an idle connection is closed.
func TestNoFilesLeft(t *testing.T) {
	attacked(t, server.Options{}, func(w *wires, _ *server.Server, _ func() error) {
		idle := w.dial("192.0.2.1")
		synctest.Wait()
		w.fails <- &net.OpError{Op: "accept", Err: os.NewSyscallError("accept", syscall.EMFILE)}
		if took := closedAfter(idle); took > time.Second {
			t.Errorf("it is open for %v", took)
		}
		if res := told(w.dial("192.0.2.1"), get("/health")); res == nil || res.StatusCode != 200 {
			t.Errorf("afterwards: %+v", res)
		}
	})
}

// TestStopsInTime: Serve ends within the grace, whatever clients do, and soon if no request is running.
func TestStopsInTime(t *testing.T) {
	for name, k := range map[string]struct {
		request string
		within  time.Duration
	}{
		"idle":          {"", 6 * time.Second},
		"header":        {"GET / HT", 6 * time.Second},
		"body":          {post("/body", 100, "{"), 6 * time.Second},
		"no reader":     {get("/big"), 6 * time.Second},
		"many":          {strings.Repeat(get("/big"), 100), 6 * time.Second},
		"waits":         {get("/late"), 30 * time.Second},
		"does not stop": {get("/stuck"), 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			attacked(t, server.Options{Grace: 30 * time.Second}, func(w *wires, _ *server.Server, stop func() error) {
				go io.WriteString(w.dial("192.0.2.1"), k.request)
				synctest.Wait()
				begin := time.Now()
				if err := stop(); err != nil {
					t.Errorf("Serve: %v", err)
				}
				if took := time.Since(begin); took > k.within {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// kib returns a body of n KiB.
func kib(n int) string { return `{"a":"` + strings.Repeat("a", n<<10-8) + `"}` }

// TestSharesOfMemory: a slow or large client holds no memory that others wait for, small requests pass large ones, and
// all memory is freed.
func TestSharesOfMemory(t *testing.T) {
	attacked(t, server.Options{Memory: 10 << 20, Timeout: time.Minute}, func(w *wires, s *server.Server, _ func() error) {
		send := func(client, body string) (status int, after string, took time.Duration) {
			begin := time.Now()
			c := w.dial(client)
			defer c.Close()
			res := told(c, post("/body", len(body), body))
			if res == nil {
				t.Fatal("no answer")
			}
			return res.StatusCode, res.Header.Get("Retry-After"), time.Since(begin)
		}
		if status, _, _ := send("192.0.2.1", kib(900)); status != 413 {
			t.Errorf("a body for which there is never room: %d", status)
		}
		if status, _, _ := send("192.0.2.1", `{"a":[`+strings.Repeat(`{},`, 10000)+`{}]}`); status != 413 {
			t.Errorf("a small body of values for which there is never room: %d", status)
		}
		trickle := func(client string) {
			c := w.dial(client)
			io.WriteString(c, post("/body", 300<<10, `{"a":"`))
			for {
				if _, err := io.WriteString(c, strings.Repeat("a", 8<<10)); err != nil {
					return
				}
				time.Sleep(2 * time.Second)
			}
		}
		go trickle("192.0.2.2")
		synctest.Wait()
		if s.TakenMemory() < 3000<<10 {
			t.Fatalf("%d bytes are taken", s.TakenMemory())
		}
		if status, after, took := send("192.0.2.2", kib(300)); status != 429 || after == "" || took != 10*time.Second {
			t.Errorf("beside its own slow body a client is told %d after %v, and to try again after %q s", status, took, after)
		}
		if status, _, took := send("192.0.2.2", kib(10)); status != 200 || took != 0 {
			t.Errorf("a small request of the same client: %d after %v", status, took)
		}
		time.Sleep(time.Minute)
		for i := range 3 {
			io.WriteString(w.dial(fmt.Sprintf("192.0.2.%d", 3+i)), post("/body", 300<<10, "{"))
		}
		synctest.Wait()
		if status, _, took := send("192.0.2.6", kib(10)); status != 200 || took != 0 {
			t.Errorf("a small request beside three slow bodies: %d after %v", status, took)
		}
		time.Sleep(5 * time.Second)
		if status, _, took := send("192.0.2.6", kib(300)); status != 200 || took < time.Second || took > 7*time.Second {
			t.Errorf("a body that waits for slow ones: %d after %v", status, took)
		}
		time.Sleep(time.Hour)
		if n := s.TakenMemory(); n != 0 {
			t.Errorf("%d bytes are still taken", n)
		}
	})
}
