package etcd

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
)

// Options are the parts of a URL
//
//	etcd://[USER:PASSWORD@]HOST:PORT[,HOST:PORT...]/NAME[?ca=FILE&cert=FILE&key=FILE&timeout=10s&txn-ops=128]
//
// The zero Options of New are those of a URL without parameters.
type Options struct {
	// Endpoints are addresses of members, User and Password those of etcd's authentication. They
	// are not used by New.
	Endpoints      []string
	User, Password string
	// Name is that of the database in the cluster. It may be empty.
	Name string
	// TLS encrypts connections, as tls=on. CA, Cert and Key are files, PEM, as ca, cert and key:
	// the authority that has signed the members' certificates, if the system does not know it, and
	// the certificate that the client shows. They imply TLS.
	TLS           bool
	CA, Cert, Key string
	// Timeout ends calls whose context has no deadline. 0 means DefaultTimeout.
	Timeout time.Duration
	// TxnOps is how many operations the members allow in a transaction, as txn-ops: their
	// --max-txn-ops, where it is not the default of etcd, 128. 0 means that.
	TxnOps int
}

// DefaultTimeout is the timeout without an option. It outlasts the election of a leader.
const DefaultTimeout = remote.DefaultTimeout

// ParseURL returns the options of a URL. Errors match store.ErrInvalid.
func ParseURL(s string) (*Options, error) {
	u, err := remote.ParseURL("etcd", "member", s)
	if err != nil {
		return nil, invalid("%v", err)
	}
	o := &Options{Endpoints: u.Servers, Name: u.Name}
	if u.User != nil {
		o.User = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	err = u.Set(map[string]any{
		"tls": &o.TLS, "ca": &o.CA, "cert": &o.Cert, "key": &o.Key, "timeout": &o.Timeout,
		"txn-ops": &o.TxnOps,
	})
	switch {
	case err != nil:
		return nil, invalid("%v", err)
	case o.TxnOps < 0 || o.TxnOps == ownOps:
		return nil, invalid("txn-ops %d: at least %d", o.TxnOps, ownOps+1)
	case (o.User == "") != (o.Password == ""):
		return nil, invalid("user and password are given together")
	}
	if _, err := o.tls(); err != nil {
		return nil, err
	}
	return o, nil
}

// tls returns the configuration of connections, nil if they are not encrypted.
func (o *Options) tls() (*tls.Config, error) {
	if !o.TLS && o.CA == "" && o.Cert == "" {
		return nil, nil
	}
	info := transport.TLSInfo{TrustedCAFile: o.CA, CertFile: o.Cert, KeyFile: o.Key}
	config, err := info.ClientConfig()
	if err != nil {
		return nil, invalid("tls: %v", err)
	}
	return config, nil
}

func (o *Options) txnOps() int { return cmp.Or(o.TxnOps, defaultTxnOps) }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: etcd: %s", store.ErrInvalid, fmt.Sprintf(format, args...))
}
