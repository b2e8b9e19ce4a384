package s3

import (
	"bytes"
	"io"
	"net/http"
	"time"
)

// maxErrorBytes bounds the body of an answer that says why.
const maxErrorBytes = 64 << 10

// honest is a transport that does not let the client guess: an answer 404 that is not the store's,
// such as that of a gateway that does not find the store, becomes 502.
//
// Why: the client takes any 404 for an object that is absent, and a shipper that misses an object
// which is there goes on before it.
type honest struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (h *honest) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := h.Transport.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusNotFound || req.Method == http.MethodHead {
		return resp, err
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(b))
	if !bytes.Contains(b, []byte("<Code>NoSuch")) {
		resp.StatusCode, resp.Status = http.StatusBadGateway, "404 Not Found, not by an S3 server"
	}
	return resp, nil
}

// credentialsClient asks the machine for its credentials. There is no server for them on a machine
// that has none.
func credentialsClient(t *http.Transport) *http.Client {
	return &http.Client{Transport: t, Timeout: 5 * time.Second}
}
