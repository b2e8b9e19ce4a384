package s3

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/kstonedb/kstone/engine"
	"github.com/kstonedb/kstone/engine/ship"
)

func init() {
	ship.Register("s3", func(_ context.Context, url string) (ship.Destination, error) {
		d, err := Open(url)
		if err != nil {
			return nil, err
		}
		return d, nil
	})
}

// awsEndpoint is the server without an endpoint.
const awsEndpoint = "s3.amazonaws.com"

// maxRetries bounds the attempts of one request.
const maxRetries = 3

// options are what a URL says.
type options struct {
	bucket, prefix   string
	endpoint, region string
	secure           bool
}

// parseURL reads a URL. Its errors never have the URL, which may have a password by mistake.
func parseURL(text string) (*options, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.Fragment != "" {
		return nil, invalid("the URL is not s3://BUCKET/PREFIX?endpoint=HOST:PORT&region=NAME")
	}
	if u.User != nil {
		return nil, invalid("credentials do not belong in a URL: set AWS_ACCESS_KEY_ID and " +
			"AWS_SECRET_ACCESS_KEY, or a profile in ~/.aws/credentials")
	}
	o := &options{bucket: u.Host, endpoint: awsEndpoint, secure: true}
	if err := s3utils.CheckValidBucketName(o.bucket); err != nil {
		return nil, invalid("bucket %q: %v", o.bucket, err)
	}
	if o.prefix = strings.Trim(u.Path, "/"); o.prefix != "" {
		o.prefix += "/"
	}
	for name, values := range u.Query() {
		value := values[len(values)-1]
		switch name {
		case "endpoint":
			o.endpoint = value
		case "region":
			o.region = value
		case "insecure":
			insecure, err := strconv.ParseBool(value)
			if err != nil {
				return nil, invalid("insecure is neither true nor false")
			}
			o.secure = !insecure
		default:
			return nil, invalid("parameter %q is not known: there are endpoint, region and "+
				"insecure", name)
		}
	}
	if o.endpoint == "" || strings.ContainsAny(o.endpoint, "/@") {
		return nil, invalid("endpoint is HOST or HOST:PORT, without a scheme; insecure=true is " +
			"for HTTP without encryption")
	}
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
		if o.region == "" {
			o.region = os.Getenv(name)
		}
	}
	if o.region == "" && o.endpoint != awsEndpoint {
		o.region = "us-east-1"
	}
	return o, nil
}

// Open opens the destination of a URL: see the package's comment. It asks the server nothing.
func Open(url string) (*Destination, error) {
	o, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	providers := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
	if o.endpoint == awsEndpoint {
		providers = append(providers, &credentials.IAM{})
	}
	creds := credentials.NewChainCredentials(providers)
	transport, err := minio.DefaultTransport(o.secure)
	if err != nil {
		return nil, err
	}
	v, err := creds.GetWithContext(&credentials.CredContext{Client: credentialsClient(transport)})
	if err != nil || v.SignerType.IsAnonymous() {
		return nil, invalid("no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or " +
			"a profile in ~/.aws/credentials")
	}
	client, err := minio.NewCore(o.endpoint, &minio.Options{Creds: creds, Secure: o.secure,
		Region: o.region, Transport: &honest{transport}, MaxRetries: maxRetries})
	if err != nil {
		return nil, invalid("endpoint %s: %v", o.endpoint, err)
	}
	return &Destination{options: *o, client: client, close: transport.CloseIdleConnections}, nil
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: s3: %s", engine.ErrInvalid, fmt.Sprintf(format, args...))
}
