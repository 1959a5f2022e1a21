package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Times of connections.
const (
	pollsPerPatience = 10              // how often a write checks for progress within gate.patience
	lingerTime       = 5 * time.Second // how long a client that still sends may read the answer that it got
	lingerQuiet      = 2 * time.Second // such a client is done reading if it sends nothing for so long
	drainTime        = 5 * time.Second // how long a stopping server waits for a client that neither sends nor reads
)

// usualConnections is the default of Options.Connections.
const usualConnections = 1024

// clientShare divides connections and memory: one client may use half of them. The share is large because all clients
// of a reverse proxy have one address.
const clientShare = 2

// gate is a listener with a limit on open connections. When it is full, a new connection replaces the one that has
// waited longest for its client; running requests continue. One client may have at most half as many running requests
// as there may be connections.
type gate struct {
	net.Listener
	most, each int
	patience   time.Duration // a client that reads nothing of its answer for so long is given up
	plain      bool          // connections are not TLS, so a refusal can be written to them
	log        *slog.Logger

	mu      sync.Mutex
	open    map[*conn]struct{}
	clients map[string]int // connections by address

	refusals seldom // log lines of refused connections
}

func newGate(l net.Listener, o *Options) *gate {
	most := o.Connections
	if most < 1 {
		most = usualConnections
	}
	return &gate{
		Listener: l, most: most, each: max(1, most/clientShare), patience: o.Timeout, plain: o.TLS == nil, log: o.Log,
		open: map[*conn]struct{}{}, clients: map[string]int{},
	}
}

// clientOf returns the key for a client's shares: its IPv4 address, or its IPv6 network of 64 bits, because a client
// usually has a whole one. It is empty for Unix sockets, which have no addresses.
func clientOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return ""
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap(); ip.Is6() {
		ip = ip.WithZone("")
		if network, err := ip.Prefix(64); err == nil && !ip.IsLoopback() {
			return network.String()
		}
	}
	return ip.String()
}

// Accept returns the next connection that may be open.
func (g *gate) Accept() (net.Conn, error) {
	for {
		raw, err := g.Listener.Accept()
		if err != nil {
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
				g.mu.Lock()
				victim := g.waiting()
				g.mu.Unlock()
				if victim != nil {
					victim.end()
				}
			}
			return nil, err // http.Server tries again after a while where that may help
		}
		if c := g.admit(raw); c != nil {
			return c, nil
		}
	}
}

// admit returns raw as one of the open connections, or nil if it refused and closed it.
func (g *gate) admit(raw net.Conn) *conn {
	c := &conn{Conn: raw, gate: g}
	if a := raw.RemoteAddr(); a != nil {
		c.client = clientOf(a.String())
	}
	c.since.Store(time.Now().UnixNano())
	g.mu.Lock()
	var victim *conn
	if len(g.open) >= g.most {
		if victim = g.waiting(); victim == nil {
			g.mu.Unlock()
			g.refuse(raw)
			return nil
		}
		g.forget(victim)
	}
	g.open[c] = struct{}{}
	g.clients[c.client]++
	g.mu.Unlock()
	if victim != nil {
		victim.end()
	}
	return c
}

// refuse closes a connection, and tells its client why unless that would take time.
func (g *gate) refuse(raw net.Conn) {
	defer raw.Close()
	if g.refusals.due() {
		g.log.Warn("connections are refused: requests are being answered over all that may be open", "connections", g.most)
	}
	if g.plain {
		raw.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		io.WriteString(raw, "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	}
}

// seldom limits log lines that clients can cause as often as they like to one a minute.
type seldom struct{ last atomic.Pointer[time.Time] }

// due reports whether a line may be written now.
func (s *seldom) due() bool {
	now, last := time.Now(), s.last.Load()
	return (last == nil || now.Sub(*last) > time.Minute) && s.last.CompareAndSwap(last, &now)
}

// waiting returns the connection to close when the gate is full: among those without a running request, one of the
// client with the most connections, the longest idle first. It is nil if all have a running request. The lock is held.
func (g *gate) waiting() *conn {
	var oldest *conn
	for c := range g.open {
		if c.busy.Load() > 0 {
			continue
		}
		if oldest != nil {
			a, b := g.clients[c.client], g.clients[oldest.client]
			if a < b || a == b && c.since.Load() >= oldest.since.Load() {
				continue
			}
		}
		oldest = c
	}
	return oldest
}

// forget removes a connection from the counts. The lock is held.
func (g *gate) forget(c *conn) {
	if _, ok := g.open[c]; !ok {
		return
	}
	delete(g.open, c)
	if g.clients[c.client]--; g.clients[c.client] == 0 {
		delete(g.clients, c.client)
	}
}

// many reports whether too many requests of c's client are being answered. Requests that wait for the client do not
// count.
func (g *gate) many(c *conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := int32(0)
	for other := range g.open {
		if other.client == c.client {
			n += other.busy.Load()
		}
	}
	return c.client != "" && int(n) > g.each
}

// drain closes, until ctx ends, connections on which the client neither sends nor reads.
func (g *gate) drain(ctx context.Context) {
	ticks := time.NewTicker(drainTime / 10)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		g.endAll(time.Now().Add(-drainTime))
	}
}

// endAll closes the connections that have waited for their clients since the time before or longer; if before is zero,
// it closes all.
func (g *gate) endAll(before time.Time) {
	g.mu.Lock()
	var ending []*conn
	for c := range g.open {
		if before.IsZero() || c.busy.Load() == 0 && c.since.Load() < before.UnixNano() {
			ending = append(ending, c)
			g.forget(c)
		}
	}
	g.mu.Unlock()
	for _, c := range ending {
		c.end()
	}
}

// A conn is a client's connection. A write fails if the client reads nothing for the gate's patience.
type conn struct {
	net.Conn
	gate   *gate
	client string // see clientOf

	busy  atomic.Int32 // requests that the server works on, without waiting for the client
	since atomic.Int64 // when the server began to wait for the client, in Unix nanoseconds; valid while busy is 0

	mu      sync.Mutex
	until   time.Time // the write deadline that net/http has set
	reading int       // calls of Read that have not returned
	ended   bool      // the client has sent all, or is gone
	closing bool
}

// connOf returns the gate's connection under c, or nil.
func connOf(c net.Conn) *conn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	own, _ := c.(*conn)
	return own
}

// work adds n, 1 or -1, to the requests that the server works on. c may be nil.
func (c *conn) work(n int32) {
	if c == nil {
		return
	}
	if n < 0 {
		c.since.Store(time.Now().UnixNano())
	}
	c.busy.Add(n)
}

func (c *conn) Read(b []byte) (int, error) {
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return 0, net.ErrClosed
	}
	c.reading++
	c.mu.Unlock()
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading--
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.ended = true
	}
	return n, err
}

// Write writes b. Its deadline moves on whenever the client reads something.
func (c *conn) Write(b []byte) (int, error) {
	last := time.Now().Add(c.gate.patience)
	for n := 0; ; {
		mine := c.armWrite(last)
		m, err := c.Conn.Write(b[n:])
		n += m
		now := time.Now()
		if m > 0 {
			last = now.Add(c.gate.patience)
		}
		if n == len(b) || !mine || !errors.Is(err, os.ErrDeadlineExceeded) || !now.Before(last) {
			return n, err
		}
	}
}

// poll returns when a write next checks for progress.
func (c *conn) poll() time.Time { return time.Now().Add(c.gate.patience / pollsPerPatience) }

// armWrite sets the deadline of a write that makes no progress, at latest last. mine reports whether the deadline is
// the gate's and not net/http's.
func (c *conn) armWrite(last time.Time) (mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.poll()
	if last.Before(at) {
		at = last
	}
	if mine = c.until.IsZero() || at.Before(c.until); !mine {
		at = c.until
	}
	c.Conn.SetWriteDeadline(at)
	return mine
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until = t; t.IsZero() {
		t = c.poll() // for a write that is under way
	}
	return c.Conn.SetWriteDeadline(t)
}

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// CloseWrite tells the client that nothing more follows.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Close closes the connection. A client that still sends first gets time to read its answer: if a connection is closed
// while data comes in, systems discard what the client has not read yet.
func (c *conn) Close() error {
	c.mu.Lock()
	again, hard := c.closing, c.ended || c.reading > 0
	c.closing = true
	c.mu.Unlock()
	switch {
	case again:
		return net.ErrClosed
	case hard || c.CloseWrite() != nil:
		return c.end()
	}
	c.since.Store(0)
	go c.linger()
	return nil
}

// linger reads what the client still sends until it has had time to read its answer.
func (c *conn) linger() {
	defer c.end()
	last := time.Now().Add(lingerTime)
	buffer := make([]byte, 16<<10)
	for {
		at := time.Now().Add(lingerQuiet)
		if at.After(last) {
			at = last
		}
		c.Conn.SetReadDeadline(at)
		if _, err := c.Conn.Read(buffer); err != nil || !time.Now().Before(last) {
			return
		}
	}
}

// end closes the connection at once.
func (c *conn) end() error {
	c.gate.mu.Lock()
	c.gate.forget(c)
	c.gate.mu.Unlock()
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	return c.Conn.Close()
}
