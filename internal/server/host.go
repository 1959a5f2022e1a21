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

// hosts decides which names a server goes by. A web page that was loaded under a name of its own site can have that
// name lead to this machine (DNS rebinding): its browser then takes the server for the page's own, and only the name in
// the request tells that it is not. What counts is therefore that no site can own a name, not where it leads.
type hosts struct {
	given []string // see Options.Hosts
	own   []string // of this machine
	local bool     // only programs of this machine reach the server
	leaf  func() *x509.Certificate
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

// ParseHost returns the name of a host that users give, which may begin with "*." for all names below it, or be "*".
// A port is left out.
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
	name, port, found := strings.Cut(host, ":")
	if strings.HasPrefix(host, "[") {
		if name, port, ok = strings.Cut(host[1:], "]"); !ok {
			return "", "", false
		}
		if ip, err := netip.ParseAddr(name); err != nil || !ip.Is6() {
			return "", "", false
		}
		if port, found = strings.CutPrefix(port, ":"); !found && port != "" {
			return "", "", false
		}
	}
	if _, err := strconv.ParseUint(port, 10, 16); port != "" && err != nil {
		return "", "", false
	}
	return strings.ToLower(strings.TrimSuffix(name, ".")), port, true
}

// goBy reports whether the server goes by the name in a Host header. Programs may leave it out; browsers cannot.
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
	case below(name, "internal"): // nobody can register them; as host.docker.internal, this machine's name in its containers
		return true
	case !h.local && (!strings.Contains(name, ".") || slices.ContainsFunc(ofNetworks, func(d string) bool { return below(name, d) })):
		return true // names of containers and of machines of this network
	}
	leaf := h.leaf()
	return leaf != nil && leaf.VerifyHostname(name) == nil
}

// ofNetworks are domains of private networks, which nobody can register: RFC 6762, with its appendix G, and RFC 8375.
var ofNetworks = []string{"local", "home.arpa", "lan", "home", "intranet", "private", "corp"}

func (h *hosts) isGiven(name string) bool {
	return slices.ContainsFunc(h.given, func(g string) bool {
		suffix, all := strings.CutPrefix(g, "*.")
		return name == g || all && below(name, suffix)
	})
}

// below reports whether a name is one of a domain's.
func below(name, domain string) bool { return strings.HasSuffix(name, "."+domain) }

// isLocalhost reports whether a name is one that browsers never ask a name server for.
func isLocalhost(name string) bool { return name == "localhost" || below(name, "localhost") }

// isAddress reports whether a host is an IP address, in the forms that browsers and curl take: 127.1 is one, too. No
// name's last part is a number.
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

// checkHost refuses requests by names that the server does not go by, and reports whether to go on. A key tells who asks
// better than a name does, and a socket in the file system is out of browsers' reach.
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
	s.o.Log.Warn("a request by a name that the server does not go by; --allowed-hosts allows one", "host", name)
	s.refuse(w, r, &Error{Status: http.StatusMisdirectedRequest, Type: "permission_error", Message: fmt.Sprintf(
		"this server does not go by the name %.200q: ask by its IP address, or start it with --allowed-hosts and that name, or with --api-key", name)})
	return false
}
