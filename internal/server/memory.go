package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// Bytes of memory that a request takes until it is answered: its body, decoded and copied, its prompt and its tokens.
// They were measured as the growth of the process with bodies of 8 MiB. Many small values take far more than their
// bytes.
const (
	perByte   = 10   // for each byte of the body
	perValue  = 100  // for each number, text and name in it
	perObject = 1000 // for each object and list in it
	perNumber = 4    // for each number of a picture's rows
)

// How the memory for requests is shared.
const (
	usualMemory = 1 << 30
	leaves      = 2                // a request must leave 1/leaves of what it takes free, for smaller ones
	poolWait    = 10 * time.Second // how long a request waits for room
	slowBody    = 10 * time.Second // a body that still comes in after so long may be given up for others
	garbagePart = 8                // the requests' garbage is at most 1/garbagePart of their memory
	unknownBody = 64 << 10         // bytes that are reserved at first for a body of unknown length
)

// pool is the memory for all requests together. One client may have at most half of it. The larger a request, the more
// it must leave free, so that small requests pass large ones. The smallest waiting request is first.
type pool struct {
	mu      sync.Mutex
	most    int64 // bytes
	taken   int64
	clients map[string]int64 // taken, by client
	shares  map[*share]struct{}
	waiting []*waiter
	garbage int64 // bytes that were given back since the collector last ran for them
}

// A share is a request's part of a pool. It belongs to one goroutine, except for the fields that the pool's lock
// guards.
type share struct {
	pool   *pool
	client string
	giveUp func() // makes reading the body fail; called with the lock held

	bytes   int64     // guarded by the lock
	reading time.Time // when reading the body began; zero: it is not being read. Guarded by the lock
	gone    bool      // the body was given up for others. Guarded by the lock
}

// A waiter is a request that waits for n more bytes.
type waiter struct {
	s       *share
	n       int64
	granted chan struct{}
}

func newPool(most int64) *pool {
	if most <= 0 {
		most = usualMemory
	}
	return &pool{most: most, clients: map[string]int64{}, shares: map[*share]struct{}{}}
}

// limits returns the most bytes that all requests, and the requests of s's client, may take if s takes that many bytes.
func (p *pool) limits(s *share, bytes int64) (all, each int64) {
	all, each = p.most-bytes/leaves, p.most/clientShare-bytes/leaves
	if s.client == "" { // a Unix socket, where a proxy may be the only client
		each = all
	}
	return all, each
}

// fits reports whether s may take n more bytes. own: it may not because the client's own part is used up. The lock is
// held.
func (p *pool) fits(s *share, n int64) (ok, own bool) {
	all, each := p.limits(s, s.bytes+n)
	own = p.clients[s.client]+n > each
	return !own && p.taken+n <= all, own
}

// grant gives n bytes to s. The lock is held.
func (p *pool) grant(s *share, n int64) {
	p.taken += n
	p.clients[s.client] += n
	s.bytes += n
	p.shares[s] = struct{}{}
}

// take gives s n more bytes. It waits for them if need be, until ctx or the server ends.
func (p *pool) take(ctx context.Context, stopping <-chan struct{}, s *share, n int64) error {
	p.mu.Lock()
	if _, each := p.limits(s, s.bytes+n); s.bytes+n > each {
		need := s.bytes + n
		p.mu.Unlock()
		return &Error{
			Status: http.StatusRequestEntityTooLarge, Type: "invalid_request_error",
			Message: fmt.Sprintf("the request needs about %d MiB of memory, more than one may take; send less text, or fewer values, or start the server with --request-memory %d",
				need>>20, (need+need/leaves)*clientShare>>20+1),
		}
	}
	if ok, _ := p.fits(s, n); ok {
		p.grant(s, n)
		p.mu.Unlock()
		return nil
	}
	w := &waiter{s, n, make(chan struct{})}
	p.waiting = append(p.waiting, w)
	p.mu.Unlock()
	return p.wait(ctx, stopping, w)
}

// wait waits until w is granted. Meanwhile it gives up slow bodies.
func (p *pool) wait(ctx context.Context, stopping <-chan struct{}, w *waiter) error {
	ticks := time.NewTicker(poolWait / 10)
	defer ticks.Stop()
	end := time.NewTimer(poolWait)
	defer end.Stop()
	for {
		var err error
		p.hurry(w)
		select {
		case <-w.granted:
			return nil
		case <-ticks.C:
			continue
		case <-ctx.Done():
			err = ctx.Err()
		case <-stopping:
			err = context.Canceled
		case <-end.C:
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		i := slices.Index(p.waiting, w)
		if i < 0 { // granted just now
			return nil
		}
		p.waiting = slices.Delete(p.waiting, i, i+1)
		if err != nil {
			return err
		}
		if _, own := p.fits(w.s, w.n); own {
			return &Error{
				Status: http.StatusTooManyRequests, Type: "rate_limit_error", RetryAfter: retryAfter,
				Message: "the requests from this address that are being answered take too much memory together; try again later",
			}
		}
		return errHeld
	}
}

// errHeld refuses a request if the others take too much memory.
var errHeld = Unavailable("the requests that are being answered take too much memory together; try again later")

// hurry gives up bodies that have been coming in for longer than slowBody and hold memory that w waits for, the oldest
// first, until there is room for w.
func (p *pool) hurry(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all, each := p.limits(w.s, w.s.bytes+w.n)
	most, own := p.taken+w.n-all, p.clients[w.s.client]+w.n-each // that must be given back
	var slow []*share
	for s := range p.shares {
		switch {
		case s.gone: // it gives back soon
			most -= s.bytes
			if s.client == w.s.client {
				own -= s.bytes
			}
		case s != w.s && !s.reading.IsZero() && time.Since(s.reading) >= slowBody:
			slow = append(slow, s)
		}
	}
	slices.SortFunc(slow, func(a, b *share) int { return a.reading.Compare(b.reading) })
	for _, s := range slow {
		ours := s.client == w.s.client
		if own <= 0 && most <= 0 {
			return
		}
		if own > 0 && !ours {
			continue
		}
		s.gone = true
		s.giveUp()
		if most -= s.bytes; ours {
			own -= s.bytes
		}
	}
}

// give takes n bytes back from s and grants them to waiting requests.
func (p *pool) give(s *share, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken -= n
	if p.clients[s.client] -= n; p.clients[s.client] == 0 {
		delete(p.clients, s.client)
	}
	if s.bytes -= n; s.bytes == 0 {
		delete(p.shares, s)
	}
	slices.SortStableFunc(p.waiting, func(a, b *waiter) int { return cmp.Compare(a.s.bytes+a.n, b.s.bytes+b.n) })
	p.waiting = slices.DeleteFunc(p.waiting, func(w *waiter) bool {
		ok, _ := p.fits(w.s, w.n)
		if ok {
			p.grant(w.s, w.n)
			close(w.granted)
		}
		return ok
	})
}

// more takes n more bytes. A share without a pool is not limited.
func (s *share) more(ctx context.Context, stopping <-chan struct{}, n int64) error {
	if s.pool == nil || n <= 0 {
		return nil
	}
	return s.pool.take(ctx, stopping, s, n)
}

// read notes that reading the request's body begins or, with false, has ended.
func (s *share) read(begins bool) {
	if s.pool == nil {
		return
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.reading = (time.Time{}); begins {
		s.reading = time.Now()
	}
}

// lost reports whether the body was given up for others.
func (s *share) lost() bool {
	if s.pool == nil {
		return false
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.gone
}

// release gives all back. What the requests took is garbage until the collector runs, which waits for the heap to
// double: so it is run before more than a part of the pool is given to others while it is garbage.
func (s *share) release() {
	p := s.pool
	if p == nil {
		return
	}
	p.mu.Lock()
	n := s.bytes
	p.garbage += n
	collect := p.garbage > p.most/garbagePart
	if collect {
		p.garbage = 0
	}
	p.mu.Unlock()
	if collect {
		debug.FreeOSMemory()
	}
	if n > 0 {
		p.give(s, n)
	}
}
