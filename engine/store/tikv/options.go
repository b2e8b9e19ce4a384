package tikv

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/tikv/client-go/v2/config"

	"github.com/kstonedb/kstone/engine/store"
	"github.com/kstonedb/kstone/engine/store/remote"
)

// Options are the parts of a URL
//
//	tikv://HOST:PORT[,HOST:PORT...]/NAME[?ca=FILE&cert=FILE&key=FILE&timeout=10s&...]
//
// The zero Options of New are those of a URL without parameters.
type Options struct {
	// PD are the addresses of placement drivers; one that answers is enough. They are
	// not used by New.
	PD []string
	// Name is that of the database in the cluster. It may be empty.
	Name string
	// CA, Cert and Key are the files of TLS, PEM, as ca, cert and key: the authority that has
	// signed the cluster's certificates, and the certificate that the client shows, by which the
	// cluster knows it. Without them connections are not encrypted.
	CA, Cert, Key string
	// Timeout ends calls whose context has no deadline. 0 means DefaultTimeout.
	Timeout time.Duration
	// NoAsyncCommit and NoOnePhase turn off these ways to commit, as async-commit=off and
	// one-phase=off, for servers that do not do them right.
	NoAsyncCommit, NoOnePhase bool
}

// DefaultTimeout is the timeout without an option.
const DefaultTimeout = 20 * time.Second

// ParseURL returns the options of a URL. Errors match store.ErrInvalid.
func ParseURL(s string) (*Options, error) {
	u, err := remote.ParseURL("tikv", s)
	if err != nil {
		return nil, invalid("%v", err)
	}
	if u.User != nil {
		return nil, invalid("TiKV has no users: give ca, cert and key as parameters instead")
	}
	o := &Options{PD: strings.Split(u.Host, ","), Name: strings.TrimPrefix(u.Path, "/")}
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
	case "timeout":
		o.Timeout, err = time.ParseDuration(value)
	case "async-commit":
		o.NoAsyncCommit, err = off(value)
	case "one-phase":
		o.NoOnePhase, err = off(value)
	default:
		return invalid("parameter %q is unknown: want ca, cert, key, timeout, async-commit "+
			"or one-phase", name)
	}
	if err != nil {
		return invalid("parameter %s: %v", name, err)
	}
	return nil
}

func off(value string) (bool, error) {
	if value != "on" && value != "off" {
		return false, fmt.Errorf("%q is neither on nor off", value)
	}
	return value == "off", nil
}

func (o *Options) check() error {
	for _, addr := range o.PD {
		if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
			return invalid("address %q of a placement driver is not HOST:PORT", addr)
		}
	}
	switch {
	case o.Timeout < 0:
		return invalid("timeout %v is negative", o.Timeout)
	case (o.Cert == "") != (o.Key == ""):
		return invalid("cert and key are given together")
	case o.CA == "" && o.Cert != "":
		return invalid("cert needs ca, the authority that has signed the cluster's certificates")
	}
	return nil
}

func (o *Options) timeout() time.Duration {
	if o.Timeout == 0 {
		return DefaultTimeout
	}
	return o.Timeout
}

func (o *Options) security() config.Security {
	return config.NewSecurity(o.CA, o.Cert, o.Key, nil)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: tikv: %s", store.ErrInvalid, fmt.Sprintf(format, args...))
}
