package remote

import (
	"fmt"
	"net/url"
)

// ParseURL reads kind://HOST:PORT,.../NAME and parameters. Errors do not have its password.
func ParseURL(kind, s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		if e, ok := err.(*url.Error); ok { //nolint:errorlint // it is that of Parse
			err = e.Err
		}
		return nil, fmt.Errorf("%w: each address is HOST:PORT", err)
	}
	if u.Opaque != "" { // Redacted leaves it as it is
		u.Opaque = "…"
	}
	if u.Scheme != kind || u.Host == "" {
		return nil, fmt.Errorf("%q is not %s://HOST:PORT,.../NAME", u.Redacted(), kind)
	}
	return u, nil
}
