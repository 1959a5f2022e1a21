package hub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Times of the network. Connecting gets little, so that a machine without a network knows at once.
const (
	connectTimeout = 5 * time.Second
	answerTimeout  = 15 * time.Second // for the head of an answer
	listTimeout    = 2 * time.Minute  // for a whole answer that is not a file
	stallAfter     = 45 * time.Second
	firstPause     = time.Second // before a second try; it doubles
	longestPause   = 30 * time.Second
	mostTries      = 5 // without success, one after the other
	mostHeader     = 256 << 10
	mostRedirects  = 10
)

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout: 2 * connectTimeout, ResponseHeaderTimeout: answerTimeout, MaxResponseHeaderBytes: mostHeader,
		ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 4,
		DisableCompression: true, // sizes and ranges are of the file itself
	}
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// userAgent names the program to the hub.
const userAgent = "powerinfer"

// isHub reports whether u is at the hub itself: same scheme, host and port.
func (h *Hub) isHub(u *url.URL) bool {
	return u.Scheme == h.endpoint.Scheme && strings.EqualFold(u.Host, h.endpoint.Host)
}

// authorize gives a request the token if it goes to the hub itself, and takes it from any other.
func (h *Hub) authorize(req *http.Request) {
	req.Header.Del("Authorization")
	if h.o.Token != "" && h.isHub(req.URL) {
		req.Header.Set("Authorization", "Bearer "+h.o.Token)
	}
}

// redirected decides about following a redirect. Other hosts than the hub store the files. They must not see the token,
// and are reached by TLS unless the hub itself is not.
func (h *Hub) redirected(req *http.Request, via []*http.Request) error {
	if len(via) >= mostRedirects {
		return failed(ErrDamaged, "%s sends from address to address", h.o.Endpoint)
	}
	if req.URL.Scheme != "https" && req.URL.Scheme != h.endpoint.Scheme {
		return failed(ErrDenied, "%s sends to an address without encryption, %.100q; it is not followed", h.o.Endpoint, req.URL.Redacted())
	}
	req.Header.Del("Referer")
	h.authorize(req)
	return nil
}

// address returns an address at the hub. Parts are escaped, except for their slashes.
func (h *Hub) address(parts ...string) *url.URL { return h.endpoint.JoinPath(escaped(parts)...) }

func escaped(parts []string) []string {
	list := make([]string, len(parts))
	for i, p := range parts {
		list[i] = strings.ReplaceAll(url.PathEscape(p), "%2F", "/")
	}
	return list
}

// request returns a request for u with the headers that all have.
func (h *Hub) request(ctx context.Context, u *url.URL) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", userAgent)
	h.authorize(req)
	return req, nil
}

// ask gets a JSON answer about a repository, and returns the head of the answer. What passes is tried again.
func (h *Hub) ask(ctx context.Context, repo string, u *url.URL, read func(io.Reader) error) (http.Header, error) {
	pause := firstPause
	for try := 1; ; try++ {
		header, err := h.askOnce(ctx, repo, u, read)
		var p *passing
		if err == nil || !errors.As(err, &p) || try >= 3 {
			return header, err
		}
		if err := h.wait(ctx, max(pause, p.after)); err != nil {
			return nil, err
		}
		pause *= 2
	}
}

func (h *Hub) askOnce(ctx context.Context, repo string, u *url.URL, read func(io.Reader) error) (http.Header, error) {
	limited, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	req, err := h.request(limited, u)
	if err != nil {
		return nil, err
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return nil, h.unanswered(ctx, err)
	}
	defer resp.Body.Close()
	if err := h.status(repo, resp); err != nil {
		return nil, err
	}
	if err := read(resp.Body); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &passing{fmt.Errorf("%s answers about %s what cannot be read: %w", h.o.Endpoint, repo, err), 0}
	}
	return resp.Header, nil
}

// passing is an error that may be gone at the next try, after some time.
type passing struct {
	error
	after time.Duration
}

func (p *passing) Unwrap() error { return p.error }

// unanswered turns the error of a request without an answer into one that says whether there is a network at all.
func (h *Hub) unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var own *failure
	if errors.As(err, &own) { // from redirected
		return own
	}
	var u *url.Error
	if errors.As(err, &u) { // it repeats the address
		err = u.Err
	}
	var cert *tls.CertificateVerificationError
	if errors.As(err, &cert) {
		return failed(ErrDenied, "%s does not prove that it is who it says (%v)", h.o.Endpoint, cert.Err)
	}
	var op *net.OpError
	var dns *net.DNSError
	var slow net.Error
	if errors.As(err, &slow) && slow.Timeout() || errors.As(err, &dns) || errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect") {
		return failed(ErrOffline, "%s cannot be reached (%v)", h.o.Endpoint, err)
	}
	return &passing{failed(ErrOffline, "%s does not answer (%v)", h.o.Endpoint, err), 0}
}

// status turns an unexpected answer into an error.
func (h *Hub) status(repo string, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent {
		return nil
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, mostError)) // so that the connection can be used again
	code := resp.Header.Get("X-Error-Code")
	page := h.address(repo)
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		return &passing{fmt.Errorf("%s asks to come again later (429)", h.o.Endpoint), retryAfter(resp)}
	case resp.StatusCode >= 500:
		return &passing{failed(ErrOffline, "%s is out of order (%d)", h.o.Endpoint, resp.StatusCode), retryAfter(resp)}
	case code == "GatedRepo" && h.o.Token == "":
		return failed(ErrDenied, "%s is gated: accept its terms at %s, and give a token of yours in HF_TOKEN", repo, page)
	case code == "GatedRepo":
		return failed(ErrDenied, "%s is gated, and the token's owner may not read it: accept its terms at %s", repo, page)
	case code == "RevisionNotFound":
		return failed(ErrNotFound, "%s has no branch main", repo)
	case code == "EntryNotFound":
		return failed(ErrNotFound, "%s no longer has that file", repo)
	case resp.StatusCode == http.StatusNotFound, code == "RepoNotFound", resp.StatusCode == http.StatusUnauthorized && h.o.Token == "":
		// Without a token the hub answers 401 for what does not exist, so that private names stay secret.
		if h.o.Token == "" {
			return failed(ErrNotFound, "there is no %s at %s, or it is private and needs a token of yours in HF_TOKEN", repo, h.o.Endpoint)
		}
		return failed(ErrNotFound, "there is no %s at %s, or it is private and the token's owner may not see it", repo, h.o.Endpoint)
	case resp.StatusCode == http.StatusUnauthorized:
		return failed(ErrDenied, "%s does not accept the token; %s gives another", h.o.Endpoint, tokenSetting)
	case resp.StatusCode == http.StatusForbidden:
		return failed(ErrDenied, "%s does not allow reading %s (403): see %s", h.o.Endpoint, repo, page)
	}
	return fmt.Errorf("%s answers %d about %s", h.o.Endpoint, resp.StatusCode, repo)
}

// retryAfter returns how long the answer asks to wait, within reason.
func retryAfter(resp *http.Response) time.Duration {
	s, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	if err != nil || s < 0 {
		return 0
	}
	return min(time.Duration(min(s, 1<<20))*time.Second, longestPause)
}

// commit asks for the commit of a repository's branch main.
func (h *Hub) commit(ctx context.Context, repo string) (string, error) {
	var info struct {
		SHA string `json:"sha"`
	}
	_, err := h.ask(ctx, repo, h.address("api/models", repo, "revision", "main"), func(r io.Reader) error {
		if err := decode(r, &info); err != nil {
			return err
		}
		if !validCommit(info.SHA) {
			return errors.New("it names no commit")
		}
		return nil
	})
	return info.SHA, err
}

// tree asks for the files of a commit; whole is false if some were left out, see readTree.
func (h *Hub) tree(ctx context.Context, repo, commit string) (files []File, whole bool, err error) {
	u := h.address("api/models", repo, "tree", commit)
	u.RawQuery = "recursive=true"
	whole = true
	for range mostPages {
		header, err := h.ask(ctx, repo, u, func(r io.Reader) error {
			page, all, err := readTree(r)
			files, whole = append(files, page...), whole && all
			return err
		})
		if err != nil {
			return nil, false, err
		}
		if len(files) > mostFiles {
			break
		}
		next, err := nextPage(u, header)
		if err != nil {
			return nil, false, err
		}
		if next == nil {
			return files, whole, nil
		}
		if !h.isHub(next) {
			return nil, false, failed(ErrDamaged, "%s sends to %.100q for the rest of its list of files; it is not followed", h.o.Endpoint, next.Host)
		}
		u = next
	}
	return nil, false, failed(ErrDamaged, "%s lists more than %d files of %s", h.o.Endpoint, mostFiles, repo)
}

// nextPage returns the address of the page that follows, from the header Link: <address>; rel="next".
func nextPage(of *url.URL, header http.Header) (*url.URL, error) {
	for _, line := range header.Values("Link") {
		for link := range strings.SplitSeq(line, ",") {
			address, params, ok := strings.Cut(strings.TrimSpace(link), ">")
			if !ok || !strings.HasPrefix(address, "<") || !strings.Contains(params, `rel="next"`) {
				continue
			}
			return of.Parse(address[1:])
		}
	}
	return nil, nil
}
