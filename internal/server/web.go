package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/powerinfer-go/powerinfer/internal/picture"
)

// Bounds of pictures that are fetched from the network.
const (
	webTime      = 30 * time.Second // for all of a request
	webRedirects = 5
	webAddress   = 8 << 10 // bytes of an address
)

// web fetches pictures from hosts that the user names.
type web struct {
	domains []string // in lower case; "*.b.org" is every host below b.org
	client  *http.Client
	reach   func(netip.Addr) bool // reports whether an address may be dialled
}

// newWeb returns a fetcher for the given domains; without any it fetches nothing.
func newWeb(domains []string) *web {
	w := &web{reach: isPublic}
	for _, d := range domains {
		w.domains = append(w.domains, strings.ToLower(strings.TrimSuffix(d, ".")))
	}
	dialer := &net.Dialer{Timeout: webTime, Control: w.check}
	w.client = &http.Client{
		Transport: &http.Transport{ // without a proxy, which would resolve names itself
			DialContext: dialer.DialContext, TLSHandshakeTimeout: webTime, ResponseHeaderTimeout: webTime, MaxResponseHeaderBytes: maxHeader,
			DisableKeepAlives: true, DisableCompression: true,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > webRedirects {
				return errRedirects
			}
			return w.allowed(r.URL)
		},
	}
	return w
}

var errRedirects = errors.New("it is redirected too often")

// check is called with the address that a name was resolved to, before it is dialled.
func (w *web) check(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err == nil && w.reach(at.Addr().Unmap().WithZone("")) {
		return nil
	}
	return errPrivate
}

// errPrivate refuses addresses that only the server's own network has.
var errPrivate = errors.New("its host is in a private network")

// reserved are networks that are no part of the public one and that netip.Addr does not tell apart.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("2001::/23"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("3fff::/20"), // tunnels may lead to private ones
}

// global6 is the only part of IPv6 that is given to the public network.
var global6 = netip.MustParsePrefix("2000::/3")

// isPublic reports whether a is an address of the public network.
func isPublic(a netip.Addr) bool {
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.Is6() && !global6.Contains(a) {
		return false
	}
	for _, p := range reserved {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// allowed returns an error for an address that pictures may not come from.
func (w *web) allowed(u *url.URL) error {
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if u.Scheme != "http" && u.Scheme != "https" || host == "" || u.User != nil {
		return errAddress
	}
	for _, d := range w.domains {
		below, wild := strings.CutPrefix(d, "*")
		if host == d || wild && strings.HasSuffix(host, below) && len(host) > len(below) {
			return nil
		}
	}
	return &forbidden{host}
}

// errAddress refuses text that is not the address of a picture.
var errAddress = errors.New("it is no address of the kind https://host/path")

// forbidden says that pictures may not come from a host.
type forbidden struct{ host string }

func (f *forbidden) Error() string { return "pictures are not fetched from " + f.host }

// fetch returns the file at an address.
func (w *web) fetch(ctx context.Context, address string) ([]byte, error) {
	if len(address) > webAddress {
		return nil, Invalid("a picture's address has more than %d bytes", webAddress)
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, Invalid("a picture's address cannot be read: %.200q", address)
	}
	if w == nil {
		return nil, refusedAddress(&forbidden{u.Hostname()})
	}
	if err := w.allowed(u); err != nil {
		return nil, refusedAddress(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, Invalid("a picture's address cannot be read: %.200q", address)
	}
	r.Header.Set("Accept", "image/*")
	r.Header.Set("User-Agent", "powerinfer")
	res, err := w.client.Do(r)
	if err != nil {
		return nil, w.failed(ctx, u, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, Invalid("the picture at %s cannot be fetched: its host answers with status %d", u.Host, res.StatusCode)
	}
	return w.body(ctx, u, res)
}

// body reads a file, and reserves its memory as it comes.
func (w *web) body(ctx context.Context, u *url.URL, res *http.Response) ([]byte, error) {
	var data []byte
	for reserved := int64(0); ; {
		if int64(len(data)) > picture.DefaultBytes {
			return nil, Invalid("the picture at %s has more than %d bytes; take a smaller one", u.Host, picture.DefaultBytes)
		}
		if len(data) == cap(data) {
			more := max(int64(unknownBody), int64(cap(data)))
			if err := reserve(ctx, reserved+more); err != nil { // the old part stays until the new one is filled
				return nil, err
			}
			data = append(make([]byte, 0, reserved+more), data...)
			unreserve(ctx, reserved)
			reserved += more
		}
		n, err := res.Body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return nil, w.failed(ctx, u, err)
		}
	}
}

// failed returns the error of a picture that does not come.
func (w *web) failed(ctx context.Context, u *url.URL, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}
	for _, why := range []error{errPrivate, errAddress, errRedirects} {
		if errors.Is(err, why) {
			return Invalid("the picture at %s cannot be fetched: %s; send the picture itself, as base64", u.Host, why)
		}
	}
	if f, ok := errors.AsType[*forbidden](err); ok {
		return refusedAddress(f)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return Invalid("the picture at %s did not come within %v; send the picture itself, as base64", u.Host, webTime)
	}
	return Invalid("the picture at %s cannot be fetched: its host does not answer", u.Host)
}

// refusedAddress refuses a picture by its address.
func refusedAddress(why error) error {
	if f, ok := why.(*forbidden); ok {
		return Invalid("%s: send the picture itself, as a data URI with base64, or start the server with --media-domains %s", f, f.host)
	}
	return Invalid("a picture's address cannot be used: %s", why)
}
