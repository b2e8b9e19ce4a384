package etcd

import (
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
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
const DefaultTimeout = 20 * time.Second

// ParseURL returns the options of a URL. Errors match store.ErrInvalid.
func ParseURL(s string) (*Options, error) {
	u, err := remote.ParseURL("etcd", s)
	if err != nil {
		return nil, invalid("%v", err)
	}
	o := &Options{Endpoints: strings.Split(u.Host, ","), Name: strings.TrimPrefix(u.Path, "/")}
	if u.User != nil {
		o.User = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	for name, values := range u.Query() {
		if err := o.set(name, values[len(values)-1]); err != nil {
			return nil, err
		}
	}
	return o, o.check()
}

func (o *Options) set(name, value string) (err error) {
	switch name {
	case "ca":
		o.CA = value
	case "cert":
		o.Cert = value
	case "key":
		o.Key = value
	case "txn-ops":
		if o.TxnOps, err = strconv.Atoi(value); err != nil {
			return invalid("parameter txn-ops: %q is not a number", value)
		}
	case "timeout":
		if o.Timeout, err = time.ParseDuration(value); err != nil {
			return invalid("parameter timeout: %v", err)
		}
	case "tls":
		if o.TLS = value == "on"; !o.TLS && value != "off" {
			return invalid("parameter tls: %q is neither on nor off", value)
		}
	default:
		return invalid("parameter %q is unknown: want tls, ca, cert, key, timeout "+
			"or txn-ops", name)
	}
	return nil
}

func (o *Options) check() error {
	for _, addr := range o.Endpoints {
		if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
			return invalid("address %q of a member is not HOST:PORT", addr)
		}
	}
	switch {
	case o.TxnOps < 0 || o.TxnOps == ownOps:
		return invalid("txn-ops %d: at least %d", o.TxnOps, ownOps+1)
	case o.Timeout < 0:
		return invalid("timeout %v is negative", o.Timeout)
	case (o.Cert == "") != (o.Key == ""):
		return invalid("cert and key are given together")
	case (o.User == "") != (o.Password == ""):
		return invalid("user and password are given together")
	}
	_, err := o.tls()
	return err
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

func (o *Options) timeout() time.Duration {
	if o.Timeout == 0 {
		return DefaultTimeout
	}
	return o.Timeout
}

func (o *Options) txnOps() int {
	if o.TxnOps == 0 {
		return defaultTxnOps
	}
	return o.TxnOps
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: etcd: %s", store.ErrInvalid, fmt.Sprintf(format, args...))
}
