package serving

import (
	"net"
	"strings"
	"testing"
)

// TestPortTaken: the error of a port that another program has names the flag to change.
func TestPortTaken(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	l, _, err := Address{Host: "127.0.0.1", Port: other.Addr().(*net.TCPAddr).Port}.Listen(t.Context())
	if err == nil {
		l.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "--port") || strings.Contains(err.Error(), "bind") {
		t.Errorf("a second listener: %v", err)
	}
}
