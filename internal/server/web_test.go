package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// TestWeb: pictures are fetched only from hosts that the user names, whatever they redirect to.
func TestWeb(t *testing.T) {
	gone, leave := context.WithCancel(t.Context())
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/picture":
			w.Header().Set("Content-Type", "text/html") // which means nothing
			io.WriteString(w, "the file")
		case "/again":
			http.Redirect(w, r, "/picture", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/elsewhere":
			http.Redirect(w, r, "http://other.example/picture", http.StatusFound)
		case "/file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		case "/late":
			leave()
			<-r.Context().Done()
		case "/endless":
			for piece := make([]byte, 1<<20); ; {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		default:
			http.NotFound(w, r)
		}
	}))
	defer host.Close()
	w := newWeb([]string{"127.0.0.1"})
	w.reach = func(netip.Addr) bool { return true } // the test's host is on this machine
	for path, want := range map[string]string{
		"/picture": "the file", "/again": "the file", "/none": "status 404", "/loop": "redirected too often", "/elsewhere": "--media-domains other.example",
		"/file": "no address", "/endless": "more than",
	} {
		data, err := w.fetch(t.Context(), host.URL+path)
		if got := string(data) + fmt.Sprint(err); !strings.Contains(got, want) {
			t.Errorf("%s: %.200s, want %q", path, got, want)
		}
	}
	if _, err := w.fetch(gone, host.URL+"/late"); err == nil || gone.Err() == nil {
		t.Errorf("a request that was given up waits for its picture: %v", err)
	}

	strict := newWeb([]string{"127.0.0.1", "localhost"})
	port := host.URL[strings.LastIndex(host.URL, ":"):]
	for _, address := range []string{host.URL + "/picture", "http://localhost" + port + "/picture"} { // by number, and by a name that is resolved
		if data, err := strict.fetch(t.Context(), address); err == nil || !strings.Contains(err.Error(), "private network") {
			t.Errorf("%s: %q, %v", address, data, err)
		}
	}
	var none *web
	if _, err := none.fetch(t.Context(), "http://a.org/"); err == nil {
		t.Error("a server without domains fetches")
	}
}

// TestMediaDomains: a domain means its host, and with an asterisk all hosts below it.
func TestMediaDomains(t *testing.T) {
	w := newWeb([]string{"a.org", "*.B.org"})
	for address, allowed := range map[string]bool{
		"https://a.org/x.png": true, "http://A.ORG:8080/x": true, "https://a.org./x": true, "https://x.b.org": true, "https://y.x.b.org": true,
		"https://b.org": false, "https://xb.org": false, "https://a.org.evil.org": false, "https://evil.org/a.org": false, "https://a.org@evil.org": false,
		"https://user@a.org": false, "ftp://a.org": false, "https://": false, "//a.org": false, "https://sub.a.org": false,
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.allowed(u) == nil; got != allowed {
			t.Errorf("%s: allowed: %v", address, got)
		}
	}
	if u, _ := url.Parse("https://anything.org"); newWeb([]string{"*"}).allowed(u) != nil {
		t.Error("the asterisk alone does not allow every host")
	}
}

// TestPublic: addresses of this machine or its network, in any form, are not public.
func TestPublic(t *testing.T) {
	for address, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true, "93.184.216.34": true,
		"127.0.0.1": false, "127.8.8.8": false, "0.0.0.0": false, "0.1.2.3": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false,
		"100.64.0.1": false, "224.0.0.1": false, "240.0.0.1": false, "255.255.255.255": false, "198.18.0.1": false, "192.0.0.8": false,
		"::1": false, "::": false, "fe80::1": false, "fc00::1": false, "ff02::1": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::ffff:8.8.8.8": true,
		"64:ff9b::7f00:1": false, "2002:7f00:1::": false, "2001::1": false, "2001:db8::1": false, "fec0::1": false, "::7f00:1": false,
	} {
		if got := isPublic(netip.MustParseAddr(address).Unmap()); got != want {
			t.Errorf("%s: public: %v", address, got)
		}
	}
}
