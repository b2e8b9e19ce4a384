// Package s3 is a ship.Destination in a bucket of an S3-compatible object store.
//
//	import _ "github.com/kstonedb/kstone/engine/ship/s3"
//
//	d, err := ship.OpenDestination(ctx, "s3://backups/orders?region=eu-central-1")
//	s, err := ship.Start(db, d, nil)
//
// # URLs
//
// A URL is s3://BUCKET/PREFIX, with the parameters
//
//	endpoint=HOST:PORT   of the server; that of AWS if it is not given
//	region=NAME          else AWS_REGION, else what the server says, or us-east-1
//	insecure=true        HTTP without encryption
//
// Credentials are never part of a URL. They are AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
// AWS_SESSION_TOKEN of the environment; or the profile AWS_PROFILE of ~/.aws/credentials, or of the
// file AWS_SHARED_CREDENTIALS_FILE; or, without an endpoint, those of the machine at AWS.
//
// # Conditional writes
//
// An object is put with "If-None-Match: *": two shippers never overwrite each other. A server that
// ignores the condition would let them, so the first Put puts the object "probe" until it is
// refused: a server that does not refuse it cannot be a destination, and the error says so. Restore
// needs no right to write.
//
// A put has a random mark in the metadata of its object. That is how a put that was repeated after
// an unknown outcome, here or on the way, and is refused, finds out that the object is its own.
//
// # Limits
//
// An object is one request, which S3 bounds to 5 GiB; a log object has at most 1 GiB, an SST little
// more than Options.FileBytes or one item. There are no multipart uploads, so that an interrupted
// put leaves nothing to clean up or to pay.
//
// # The client
//
// minio-go: it links 59 packages where aws-sdk-go-v2, with its configuration, links 130; both are
// kept well.
package s3
