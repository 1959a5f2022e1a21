package serving

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Address is the host and port of a server.
type Address struct {
	Host string // name or IP address; a path that ends with .sock is a socket in the file system
	Port int    // 0: any free one
	TLS  bool
}

// Socket returns the path of the socket in the file system; empty if there is none.
func (a Address) Socket() string {
	if strings.HasSuffix(a.Host, ".sock") {
		return a.Host
	}
	return ""
}

// Local reports whether only programs of this machine reach the address.
func (a Address) Local() bool {
	ip := net.ParseIP(a.Host)
	return a.Socket() != "" || a.Host == "localhost" || ip != nil && ip.IsLoopback()
}

// Listen opens the address, and returns the beginning of its URLs.
func (a Address) Listen(ctx context.Context) (l net.Listener, url string, err error) {
	scheme := "http://"
	if a.TLS {
		scheme = "https://"
	}
	path := a.Socket()
	if path == "" {
		l, err = net.Listen("tcp", net.JoinHostPort(a.Host, strconv.Itoa(a.Port)))
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			return nil, "", fmt.Errorf("another program listens at port %d; --port gives this server another one", a.Port)
		case err != nil:
			return nil, "", fmt.Errorf("%w; --host and --port choose another address", err)
		}
		return l, scheme + l.Addr().String(), nil
	}
	if err := clearSocket(ctx, path); err != nil {
		return nil, "", err
	}
	if l, err = net.Listen("unix", path); err != nil {
		return nil, "", fmt.Errorf("%w; --host names another socket", err)
	}
	return l, "unix:" + path, nil
}

// clearSocket removes the socket of a server that was killed.
func clearSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return nil // there is no socket, or Listen will refuse to replace it
	}
	d := net.Dialer{Timeout: time.Second}
	if other, err := d.DialContext(ctx, "unix", path); err == nil {
		other.Close()
		return fmt.Errorf("another program listens on %s; --host names another socket", path)
	}
	return os.Remove(path)
}
