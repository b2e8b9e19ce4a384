package tikv

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	client "github.com/tikv/client-go/v2/tikv"
	pd "github.com/tikv/pd/client"

	"github.com/kstonedb/kstone/engine/store/remote"
)

func init() { remote.Register("tikv", Open) }

// Open opens a database by URL: see Options. The caller closes it. It fails with the error of ctx,
// or after Options.Timeout, if no placement driver answers.
func Open(ctx context.Context, url string) (*Store, error) {
	o, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	ctx, cancel := remote.Within(ctx, o.Timeout)
	defer cancel()
	security := o.security()
	config, err := security.ToTLSConfig()
	if err != nil {
		return nil, invalid("%v", err)
	}
	reasons := remote.Probe(ctx, o.PD, config)
	// The client knows no deadline while it connects. It stops when the context of its life ends.
	life, end := context.WithCancel(context.WithoutCancel(ctx)) //nolint:govet // Close ends it
	type opened struct {
		kv  *client.KVStore
		err error
	}
	done := make(chan opened, 1)
	go func() {
		kv, err := connect(life, o, config)
		done <- opened{kv, err}
	}()
	var got opened
	select {
	case got = <-done:
	case <-ctx.Done():
		end()
		go func() {
			if late := <-done; late.err == nil {
				_ = late.kv.Close()
			}
		}()
		got.err = context.Cause(ctx)
	}
	if got.err != nil {
		end()
		if found := reasons(); found != "" {
			got.err = fmt.Errorf("%w: %s", got.err, found)
		}
		return nil, fmt.Errorf("tikv: no placement driver of %v answers: %w; check the addresses, "+
			"and ca, cert and key if the cluster uses TLS", o.PD, got.err)
	}
	s := New(got.kv, o)
	s.owned, s.end = true, end
	return s, nil
}

// connect returns a client. Life is the context of all that it does by itself.
func connect(
	life context.Context, o *Options, config *tls.Config,
) (*client.KVStore, error) {
	driver, err := pd.NewClientWithContext(life, o.PD, pd.SecurityOption{
		CAPath: o.CA, CertPath: o.Cert, KeyPath: o.Key,
	}, pd.WithCustomTimeoutOption(pdTimeout))
	if err != nil {
		return nil, err
	}
	coded := client.NewCodecPDClient(client.ModeTxn, driver)
	points, err := client.NewEtcdSafePointKV(o.PD, config)
	if err != nil {
		driver.Close()
		return nil, err
	}
	rpc := client.NewRPCClient(client.WithSecurity(o.security()),
		client.WithCodec(coded.GetCodec()))
	name := fmt.Sprintf("kstone-%d", coded.GetClusterID(life))
	return client.NewKVStore(name, coded, points, rpc)
}

// pdTimeout bounds one request to a placement driver; a call makes several.
const pdTimeout = 3 * time.Second
