package server

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// hosts decides which names a server answers to. The owner of a web site can make its name resolve to this machine (DNS
// rebinding). A browser that has loaded a page from the site then takes this server for the page's own. Only the name
// in the request shows that it is not, so the server answers only to names that no web site can own.
type hosts struct {
	given []string // see Options.Hosts
	own   []string // this machine's names
	local bool     // only programs of this machine reach the server
	leaf  func() *x509.Certificate

	refusals seldom // log lines of refused names
}

func newHosts(o *Options) *hosts {
	h := &hosts{local: o.Local, leaf: func() *x509.Certificate { return nil }}
	for _, name := range o.Hosts {
		h.given = append(h.given, strings.ToLower(strings.TrimSuffix(name, ".")))
	}
	if name, err := os.Hostname(); err == nil && name != "" {
		name = strings.ToLower(name)
		first, _, _ := strings.Cut(name, ".")
		h.own = []string{name, first, first + ".local"}
	}
	if o.TLS != nil && o.TLS.GetCertificate != nil {
		h.leaf = func() *x509.Certificate {
			pair, err := o.TLS.GetCertificate(nil)
			if err != nil {
				return nil
			}
			return pair.Leaf
		}
	}
	return h
}

// ParseHost returns the name of a host that a user gives, without its port. It may be "*", or begin with "*." for all
// names below one.
func ParseHost(text string) (string, error) {
	name, _, ok := splitHost(strings.TrimPrefix(text, "*."))
	if !ok || name == "" || strings.ContainsAny(name, "/ @*") && text != "*" {
		return "", fmt.Errorf("%q is not the name of a host, such as chat.example.org or *.example.org", text)
	}
	if strings.HasPrefix(text, "*.") {
		name = "*." + name
	}
	return name, nil
}

// splitHost returns the name in a Host header, in lower case and without the dot that may end it, and its port.
func splitHost(host string) (name, port string, ok bool) {
	name, port, _ = strings.Cut(host, ":")
	if strings.HasPrefix(host, "[") {
		if name, port, ok = strings.Cut(host[1:], "]"); !ok {
			return "", "", false
		}
		if ip, err := netip.ParseAddr(name); err != nil || !ip.Is6() {
			return "", "", false
		}
		var found bool
		if port, found = strings.CutPrefix(port, ":"); !found && port != "" {
			return "", "", false
		}
	}
	if _, err := strconv.ParseUint(port, 10, 16); port != "" && err != nil {
		return "", "", false
	}
	return strings.ToLower(strings.TrimSuffix(name, ".")), port, true
}

// goBy reports whether the server answers to the name in a Host header. Programs may leave the name out; browsers
// cannot.
func (h *hosts) goBy(host string) bool {
	if host == "" || slices.Contains(h.given, "*") {
		return true
	}
	name, _, ok := splitHost(host)
	switch {
	case !ok || name == "":
		return false
	case isAddress(name), isLocalhost(name), slices.Contains(h.own, name), h.isGiven(name):
		return true
	case slices.Contains(ofContainers, name):
		return true
	case !h.local && (!strings.Contains(name, ".") || slices.ContainsFunc(ofNetworks, func(d string) bool { return below(name, d) })):
		return true // names of containers and of machines of this network
	}
	leaf := h.leaf()
	return leaf != nil && leaf.VerifyHostname(name) == nil
}

// ofContainers are the names that this machine has in its containers.
var ofContainers = []string{"host.docker.internal", "gateway.docker.internal", "host.containers.internal"}

// ofNetworks are domains of private networks, which nobody can register: RFC 6762 with appendix G, RFC 8375, ICANN's
// internal, systemd's localdomain and Kubernetes' svc. A network's own name server may still have any name below them,
// so a server that only this machine reaches does not go by them.
var ofNetworks = []string{"local", "home.arpa", "lan", "home", "intranet", "private", "corp", "internal", "localdomain", "svc"}

func (h *hosts) isGiven(name string) bool {
	return slices.ContainsFunc(h.given, func(g string) bool {
		suffix, all := strings.CutPrefix(g, "*.")
		return name == g || all && below(name, suffix)
	})
}

// below reports whether a name is a subdomain of a domain.
func below(name, domain string) bool { return strings.HasSuffix(name, "."+domain) }

// isLocalhost reports whether browsers resolve a name themselves, without a name server.
func isLocalhost(name string) bool { return name == "localhost" || below(name, "localhost") }

// isAddress reports whether a host is an IP address, in the forms that browsers and curl accept, such as 127.1. The
// last part of a name is never a number.
func isAddress(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	parts := strings.Split(host, ".")
	return len(parts) <= net.IPv4len && !slices.ContainsFunc(parts, func(p string) bool {
		_, err := strconv.ParseUint(p, 0, 32)
		return err != nil || strings.Contains(p, "_")
	})
}

// checkHost refuses a request to a name that the server does not answer to, and reports whether to go on. If there are
// keys, every name is allowed, because a web page does not know a key. Browsers cannot reach a Unix socket.
func (s *Server) checkHost(w http.ResponseWriter, r *http.Request) bool {
	if s.keys.wanted() || s.hosts.goBy(r.Host) {
		return true
	}
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && at.Network() == "unix" {
		return true
	}
	name, _, ok := splitHost(r.Host)
	if !ok || name == "" {
		name = r.Host
	}
	if s.hosts.refusals.due() {
		s.o.Log.Warn("a request by a name that the server does not go by; --allowed-hosts allows one", "host", fmt.Sprintf("%.200s", name))
	}
	s.refuse(w, r, &Error{Status: http.StatusMisdirectedRequest, Type: "permission_error", Message: fmt.Sprintf(
		"this server does not go by the name %.200q: ask by its IP address, or start it with --allowed-hosts and that name, or with --api-key", name)})
	return false
}
