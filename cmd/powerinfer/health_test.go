package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A server is healthy where /health answers 200 and at no other time; what it says is passed on.
func TestHealth(t *testing.T) {
	status, body := http.StatusOK, `{"status":"ok"}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" && r.URL.Path != "/models/health" {
			t.Errorf("%s was asked for", r.URL.Path)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	defer s.Close()
	for _, c := range []struct {
		status             int
		body, address, err string
	}{
		{200, `{"status":"ok"}`, s.URL, ""},
		{200, `{"status":"ok"}`, s.URL + "/", ""},
		{200, `{"status":"ok"}`, s.URL + "/models", ""},
		{503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, s.URL, "Loading model"},
		{404, `<html>`, s.URL, "404 Not Found"},
		{200, "", "127.0.0.1:8080", "no server's address"},
		{200, "", "file:///etc/passwd", "no server's address"},
	} {
		status, body = c.status, c.body
		err := checkHealth(context.Background(), c.address)
		if c.err == "" && err != nil {
			t.Errorf("%d %s: %v", c.status, c.address, err)
		}
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%d %s: %v says nothing of %q", c.status, c.address, err, c.err)
		}
	}
	s.Close()
	if err := checkHealth(context.Background(), s.URL); err == nil || !strings.Contains(err.Error(), "no server answers") {
		t.Errorf("without a server: %v", err)
	}
}

// A server that listens everywhere is asked at the loopback.
func TestServerURL(t *testing.T) {
	for host, want := range map[string]string{
		"0.0.0.0": "http://127.0.0.1:80", "::": "http://[::1]:80", "192.0.2.1": "http://192.0.2.1:80", "example.org": "http://example.org:80",
	} {
		if got := serverURL(host, 80); got != want {
			t.Errorf("%s: %s, not %s", host, got, want)
		}
	}
}
