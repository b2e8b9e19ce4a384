package etcd

import (
	"cmp"
	"context"
	"fmt"
	"time"

	client "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/kstonedb/kstone/engine/store/remote"
)

func init() { remote.Register("etcd", Open) }

// A member that does not answer for that long is given up, and another one asked.
const (
	keepAlive        = 2 * time.Second
	keepAliveTimeout = 2 * time.Second
)

// Open opens a database by URL: see Options. The caller closes it. It fails with the error of ctx,
// or after Options.Timeout, if no member answers.
func Open(ctx context.Context, url string) (*Store, error) {
	o, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	ctx, cancel := remote.Within(ctx, o.Timeout)
	defer cancel()
	config, err := o.tls()
	if err != nil {
		return nil, err
	}
	// The client logs in by itself, and stops when the context of its life ends.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	reasons := remote.Probe(ctx, o.Endpoints, config)
	c, err := client.New(client.Config{
		Endpoints: o.Endpoints, Username: o.User, Password: o.Password, TLS: config,
		Context: life, DialTimeout: cmp.Or(o.Timeout, DefaultTimeout),
		DialKeepAliveTime: keepAlive, DialKeepAliveTimeout: keepAliveTimeout,
		Logger: zap.NewNop(),
	})
	if err != nil {
		end()
		return nil, unreachable(ctx, o, err, reasons())
	}
	s := New(c, o)
	s.end = end
	if _, err := s.revision(ctx); err != nil || !stop() {
		_ = s.Close()
		return nil, unreachable(ctx, o, err, reasons())
	}
	return s, nil
}

func unreachable(ctx context.Context, o *Options, err error, reasons string) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if reasons != "" {
		err = fmt.Errorf("%w: %s", err, reasons)
	}
	return fmt.Errorf("etcd: no member of %v answers: %w; check the addresses, user and password, "+
		"and tls, ca, cert and key if the members use TLS", o.Endpoints, err)
}
