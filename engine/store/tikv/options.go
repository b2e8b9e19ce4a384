package tikv

import (
	"fmt"
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
const DefaultTimeout = remote.DefaultTimeout

// ParseURL returns the options of a URL. Errors match store.ErrInvalid.
func ParseURL(s string) (*Options, error) {
	u, err := remote.ParseURL("tikv", "placement driver", s)
	if err != nil {
		return nil, invalid("%v", err)
	}
	o, async, one := &Options{PD: u.Servers, Name: u.Name}, true, true
	err = u.Set(map[string]any{
		"ca": &o.CA, "cert": &o.Cert, "key": &o.Key, "timeout": &o.Timeout,
		"async-commit": &async, "one-phase": &one,
	})
	switch {
	case u.User != nil:
		return nil, invalid("TiKV has no users: give ca, cert and key as parameters instead")
	case err != nil:
		return nil, invalid("%v", err)
	case o.CA == "" && o.Cert != "":
		return nil, invalid(
			"cert needs ca, the authority that has signed the cluster's certificates")
	}
	o.NoAsyncCommit, o.NoOnePhase = !async, !one
	return o, nil
}

func (o *Options) security() config.Security {
	return config.NewSecurity(o.CA, o.Cert, o.Key, nil)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: tikv: %s", store.ErrInvalid, fmt.Sprintf(format, args...))
}
