package remote

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"
)

// Probe tries to connect to addresses, with TLS if config is not nil, until ctx ends. Reasons
// returns what has failed so far, as text for an error, or "".
//
// Why: clients try again and again until a deadline, and then report that instead of what failed.
func Probe(ctx context.Context, addrs []string, config *tls.Config) (reasons func() string) {
	var mu sync.Mutex
	var found []string
	for _, addr := range addrs {
		go func() {
			if err := dial(ctx, addr, config); err != nil && ctx.Err() == nil {
				mu.Lock()
				found = append(found, err.Error())
				mu.Unlock()
			}
		}()
	}
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(found, ", ")
	}
}

func dial(ctx context.Context, addr string, config *tls.Config) (err error) {
	var conn net.Conn
	if config == nil {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", addr)
	} else {
		conn, err = (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		return err
	}
	return conn.Close()
}
