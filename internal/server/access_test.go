package server_test

import (
	"net/http"
	"testing"
)

// TestOrigins: with keys or a local address, pages and programs of this machine may ask. With keys and no list, so may
// every page. Otherwise only listed origins and the server's own page may.
func TestOrigins(t *testing.T) {
	machine := []string{
		"http://localhost", "http://localhost:3000", "https://127.0.0.1:8443", "http://[::1]:5173", "http://tauri.localhost",
		"app://obsidian.md", "file://", "tauri://localhost", "vscode-webview://1abc", "capacitor://localhost", "chrome-extension://abcdef",
	}
	strangers := []string{"https://page.example", "http://localhost.page.example", "http://notlocalhost", "http://10.0.0.1", "null"}
	for name, k := range map[string]struct {
		keys, list                      []string
		local                           bool
		machine, strangers, listed, own bool
	}{
		"loopback":           {local: true, machine: true, own: true},
		"a network":          {own: true},
		"keys":               {keys: []string{"k"}, machine: true, strangers: true, listed: true, own: true},
		"keys and a list":    {keys: []string{"k"}, list: []string{"https://listed.example"}, machine: true, listed: true, own: true},
		"a list":             {list: []string{"https://listed.example"}, listed: true, own: true},
		"localhost as list":  {list: []string{"localhost"}, machine: true, own: true},
		"all":                {list: []string{"*"}, machine: true, strangers: true, listed: true, own: true},
		"a list on loopback": {list: []string{"https://listed.example"}, local: true, machine: true, listed: true, own: true},
	} {
		l := start(t, func(o *choices) { o.Keys, o.Origins, o.Local = k.keys, k.list, k.local })
		check := func(origin string, may bool) {
			t.Helper()
			status, allowed := http.StatusForbidden, ""
			if may {
				status, allowed = http.StatusOK, origin
			}
			res := l.request(t.Context(), "GET", "/health", "", "Origin", origin)
			res.Body.Close()
			if got := res.Header.Get("Access-Control-Allow-Origin"); res.StatusCode != status || got != allowed {
				t.Errorf("%s: %s: status %d, allowed %q", name, origin, res.StatusCode, got)
			}
			res = l.request(t.Context(), "OPTIONS", "/v1/chat/completions", "", "Origin", origin, "Access-Control-Request-Headers", "authorization")
			res.Body.Close()
			if got := res.Header.Get("Access-Control-Allow-Origin"); res.StatusCode != http.StatusOK || got != allowed || (res.Header.Get("Access-Control-Allow-Headers") != "") != may {
				t.Errorf("%s: a preflight of %s: status %d, headers %v", name, origin, res.StatusCode, res.Header)
			}
		}
		for _, origin := range machine {
			check(origin, k.machine)
		}
		for _, origin := range strangers {
			check(origin, k.strangers)
		}
		check("https://listed.example", k.listed)
		check(l.url, k.own || k.machine)
	}
}
